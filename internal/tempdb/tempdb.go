// Package tempdb gives a command a database of its own, which goes when the command
// ends: on a server that the user named, or on a throwaway one.
package tempdb

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

	"github.com/nextid/postgres-ids/internal/display"
	"github.com/nextid/postgres-ids/internal/localpg"
)

// A Database is a command's own.
type Database struct {
	URL     string // of the database
	Origin  string // its server, for people to read
	Removed string // what Close has removed, for people to read

	remove func(context.Context) error
}

// A CleanupError says what could not be removed.
type CleanupError struct {
	What string
	Err  error
}

func (e *CleanupError) Error() string {
	return fmt.Sprintf("%s could not be removed, remove it by hand: %v", e.What, e.Err)
}

func (e *CleanupError) Unwrap() error { return e.Err }

// Open makes a temporary database on the server of serverURL, or starts a throwaway
// server if that is empty. Its name starts with pgid_ and the command's name. The
// caller closes it. What takes long is shown on the line.
func Open(ctx context.Context, serverURL, command string, line *display.Line) (*Database, error) {
	if serverURL == "" { // seconds, and a download where PostgreSQL is not installed
		line.Show("starting a throwaway server")
		defer line.Clear()
		return startServer(ctx)
	}
	return createDatabase(ctx, serverURL, command)
}

// Close removes the database, and returns a *[CleanupError] if it stays behind. It
// has a time of its own: ctx may have ended.
func (d *Database) Close(ctx context.Context) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer stop()
	return d.remove(ctx)
}

func startServer(ctx context.Context) (*Database, error) {
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
	return &Database{
		Origin:  server.Origin + " (a throwaway server)",
		URL:     server.URL(),
		Removed: "throwaway server stopped and removed",
		remove: func(context.Context) error {
			if err := server.Stop(); err != nil {
				return &CleanupError{What: "the throwaway server in " + server.Dir(), Err: err}
			}
			return nil
		},
	}, nil
}

func createDatabase(ctx context.Context, serverURL, command string) (*Database, error) {
	name, err := randomName(command)
	if err != nil {
		return nil, err
	}
	tempURL, err := withDatabase(serverURL, name)
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
		return nil, fmt.Errorf("the %s works in a temporary database, and role %q may not create one: "+
			"use a role with CREATEDB, or give neither --database-url nor PGID_DATABASE_URL to get a throwaway server: %w", command, conn.Config().User, err)
	}
	if err != nil {
		return nil, fmt.Errorf("create a temporary database: %w", err)
	}
	return &Database{
		Origin: fmt.Sprintf("PostgreSQL %s at %s:%d, temporary database %s",
			conn.PgConn().ParameterStatus("server_version"), conn.Config().Host, conn.Config().Port, name),
		URL:     tempURL,
		Removed: "temporary database dropped",
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

func randomName(command string) (string, error) {
	var b [6]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return "pgid_" + command + "_" + hex.EncodeToString(b[:]), nil
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
