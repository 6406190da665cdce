package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// database is the database that the user named: a URL or keyword/value string, or
// "" where PostgreSQL's own variables name it.
func (a *app) database() (string, error) {
	named, source := a.ownDatabase()
	if named == "" {
		named, source = a.Getenv("DATABASE_URL"), "DATABASE_URL"
	}
	if named == "" {
		for _, variable := range []string{"PGHOST", "PGDATABASE", "PGUSER", "PGSERVICE", "PGPORT"} {
			if a.Getenv(variable) != "" {
				return "", checkURL("", "what the PG* variables say")
			}
		}
		return "", errors.New("no database is named: use --database-url postgres://user@host:5432/database," +
			" or set PGID_DATABASE_URL, DATABASE_URL or PGHOST")
	}
	return named, checkURL(named, source)
}

// ownDatabase is the database that was named for pgid and nothing else, and what
// named it; "" if there is none.
func (a *app) ownDatabase() (named, source string) {
	if a.databaseURL != "" {
		return a.databaseURL, "--database-url"
	}
	return a.Getenv("PGID_DATABASE_URL"), "PGID_DATABASE_URL"
}

// ownServer is the server that a command which makes a database of its own works on:
// "" for a throwaway one.
func (a *app) ownServer() (string, error) {
	named, source := a.ownDatabase()
	if named == "" {
		return "", nil
	}
	return named, checkURL(named, source)
}

// checkURL refuses what pgx cannot read, without repeating any of it where a
// password might be in it: a malformed URL cannot be redacted reliably.
func checkURL(named, source string) error {
	config, err := pgx.ParseConfig(named)
	isURL := strings.HasPrefix(named, "postgres://") || strings.HasPrefix(named, "postgresql://")
	_, malformed := url.Parse(named)
	switch {
	case err == nil && !strings.Contains(config.Host, "@"):
		return nil
	case isURL && malformed != nil,
		err == nil: // pgx ended the password at its first @, and the rest is in the host
		return fmt.Errorf("%s is not a URL: write postgres://user:password@host:5432/database,"+
			" with special characters of user and password as %%XX", source)
	case strings.Contains(err.Error(), "failed to parse as keyword/value"):
		return fmt.Errorf("%s is not a database URL: write postgres://user:password@host:5432/database"+
			" or host=HOST dbname=NAME user=USER", source)
	}
	// The reason alone: the rest of pgx's text is the URL.
	if reason := errors.Unwrap(err); reason != nil {
		return fmt.Errorf("%s does not name a database: %w", source, reason)
	}
	if _, reason, found := strings.Cut(err.Error(), "`: "); found {
		return fmt.Errorf("%s does not name a database: %s", source, reason)
	}
	return fmt.Errorf("%s does not name a database", source)
}

// connect opens a session with the database that the user named. The caller closes it.
func (a *app) connect(ctx context.Context) (*pgx.Conn, error) {
	named, err := a.database()
	if err != nil {
		return nil, err
	}
	return dial(ctx, named, nil)
}

// dial opens a session with a database whose name was checked. onNotice, if given, gets what
// the server says beside its answers.
func dial(ctx context.Context, named string, onNotice pgconn.NoticeHandler) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(named)
	if err != nil {
		return nil, err // not reached: checkURL has read it
	}
	// No prepared statements: under a pooler in transaction mode they would meet those
	// of earlier runs.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.OnNotice = onNotice
	return pgx.ConnectConfig(ctx, config)
}

// withConn calls do with a session of its own.
func (a *app) withConn(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return do(conn)
}
