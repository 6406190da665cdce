package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nextid/postgres-ids/pgid"
)

// lifeVersion is the version of the schema pgid that first has what the life of a
// shard needs: advance_shard, retire_shard, pools.
const lifeVersion = 3

const needToOwn = "connect as the owner of the schema pgid"

// openNamed opens a session with a database that `source` has named: a URL or
// keyword/value string. The server's warnings become lines on Stderr. The caller
// closes it.
func (a *app) openNamed(ctx context.Context, named, source string) (*pgx.Conn, error) {
	if err := checkURL(named, source); err != nil {
		return nil, err
	}
	return dial(ctx, named, func(_ *pgconn.PgConn, n *pgconn.Notice) { warn(a.Stderr, n) })
}

// warn writes a warning of the server as one line. What is less than a warning is not
// for the user.
func warn(w io.Writer, n *pgconn.Notice) {
	if n.SeverityUnlocalized != "WARNING" {
		return
	}
	text := n.Message
	if n.Hint != "" {
		text += ": " + n.Hint
	}
	_, _ = fmt.Fprintln(w, "pgid: warning: "+fold(text))
}

// withWarnings calls do with a session of its own, whose warnings reach the user.
func (a *app) withWarnings(ctx context.Context, do func(*pgx.Conn) error) error {
	named, err := a.database()
	if err != nil {
		return err
	}
	conn, err := a.openNamed(ctx, named, "the database")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return do(conn)
}

// lifeSettings are the settings of a database that has what the life of a shard needs.
func lifeSettings(ctx context.Context, conn *pgx.Conn) (pgid.Settings, error) {
	settings, err := pgid.NewClient(conn).Settings(ctx)
	if err != nil {
		return settings, permissionError(err, needToOwn)
	}
	if settings.Version < lifeVersion {
		return settings, fmt.Errorf("the schema pgid has version %d here, and this needs %d: run «pgid migrate up»",
			settings.Version, lifeVersion)
	}
	return settings, nil
}

// beginDurable begins a transaction of which, once it is committed, no crash of the
// server takes anything: what is printed, or done elsewhere, after it relies on that.
func beginDurable(ctx context.Context, conn *pgx.Conn) (pgx.Tx, error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', true)
		WHERE current_setting('synchronous_commit') = 'off'`)
	if err != nil {
		rollback(ctx, tx)
		return nil, err
	}
	return tx, nil
}

// rollback ends a transaction, if it has not ended, also when ctx has.
func rollback(ctx context.Context, tx pgx.Tx) { _ = tx.Rollback(context.WithoutCancel(ctx)) }
