package demo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nextid/postgres-ids/internal/localpg"
)

// A place is a database of the demo's own.
type place struct {
	origin  string // for people to read
	url     string // of the database
	removed string // what close has removed
	remove  func(context.Context) error
}

// openPlace makes a temporary database on the server of serverURL, or starts a
// throwaway server if that is empty.
func openPlace(ctx context.Context, serverURL string) (*place, error) {
	if serverURL == "" {
		return startServer(ctx)
	}
	return createDatabase(ctx, serverURL)
}

// close removes the place. It has a time of its own: ctx may have ended.
func (p *place) close(ctx context.Context) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer stop()
	return p.remove(ctx)
}

func startServer(ctx context.Context) (*place, error) {
	server, err := localpg.Start(localpg.Options{})
	if ctx.Err() != nil { // it takes no context: an interrupt shows only now
		if err == nil {
			err = server.Stop()
		}
		return nil, errors.Join(ctx.Err(), err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: name a server to use instead, with --database-url or PGID_DATABASE_URL", err)
	}
	return &place{
		origin:  server.Origin + " (a throwaway server)",
		url:     server.URL(),
		removed: "throwaway server stopped and removed",
		remove: func(context.Context) error {
			if err := server.Stop(); err != nil {
				return &CleanupError{What: "the throwaway server in " + server.Dir(), Err: err}
			}
			return nil
		},
	}, nil
}

func createDatabase(ctx context.Context, serverURL string) (*place, error) {
	name, err := randomName()
	if err != nil {
		return nil, err
	}
	demoURL, err := withDatabase(serverURL, name)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, serverURL)
	if err != nil {
		return nil, err // it says that it failed to connect, and where
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()

	// Not to be cancelled: the server might create it all the same, and nobody
	// would know.
	whole, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer stop()
	_, err = conn.Exec(whole, "CREATE DATABASE "+name)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42501" {
		return nil, fmt.Errorf("the demo works in a temporary database, and role %q may not create one: "+
			"use a role with CREATEDB, or give neither --database-url nor PGID_DATABASE_URL to get a throwaway server: %w", conn.Config().User, err)
	}
	if err != nil {
		return nil, fmt.Errorf("create a temporary database: %w", err)
	}
	return &place{
		origin: fmt.Sprintf("PostgreSQL %s at %s:%d, temporary database %s",
			conn.PgConn().ParameterStatus("server_version"), conn.Config().Host, conn.Config().Port, name),
		url:     demoURL,
		removed: "temporary database dropped",
		remove:  func(ctx context.Context) error { return dropDatabase(ctx, serverURL, name) },
	}, nil
}

func dropDatabase(ctx context.Context, serverURL, name string) error {
	conn, err := pgx.Connect(ctx, serverURL)
	if err == nil {
		defer func() { _ = conn.Close(ctx) }()
		_, err = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	}
	if err != nil {
		return &CleanupError{What: "the temporary database " + name, Err: err}
	}
	return nil
}

func randomName() (string, error) {
	var b [6]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return "pgid_demo_" + hex.EncodeToString(b[:]), nil
}

// withDatabase is a connection string that differs from the given one in its
// database alone.
func withDatabase(connString, name string) (string, error) {
	changed := connString + " dbname=" + name // the last one counts
	if strings.HasPrefix(connString, "postgres://") || strings.HasPrefix(connString, "postgresql://") {
		u, err := url.Parse(connString)
		if err != nil {
			return "", errors.New("the database URL cannot be read") // its text may hold a password
		}
		u.Path, u.RawPath = "/"+name, ""
		query := u.Query()
		query.Del("dbname")
		query.Del("database")
		u.RawQuery = query.Encode()
		changed = u.String()
	}
	config, err := pgx.ParseConfig(changed)
	if err != nil || config.Database != name {
		return "", errors.New("the database URL cannot be turned to a temporary database: write postgres://user@host:5432/database")
	}
	return changed, nil
}
