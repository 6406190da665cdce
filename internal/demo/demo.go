// Package demo shows pgid at work, end to end: it installs it in a temporary
// database, lets several sessions write rows at once, checks every promise on what
// they wrote, and removes it all.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/nextid/postgres-ids/internal/display"
	"github.com/nextid/postgres-ids/internal/tempdb"
	"github.com/nextid/postgres-ids/migrations"
	"github.com/nextid/postgres-ids/pgid"
)

// Options configure [Run].
type Options struct {
	URL      string    // of a database on the server to use; empty starts a throwaway server
	Rows     int       // how many rows to write; 0 is 200,000
	Out      io.Writer // where the story goes
	Progress io.Writer // where progress goes, if somebody watches; else nil
}

const (
	shardCount   = 4
	sessionCount = 8
	defaultRows  = 200_000
)

// ErrFailed is returned by [Run] when a check failed.
var ErrFailed = errors.New("pgid: the demo found a broken promise: see the checks marked FAILED")

// Run runs the demo. Whatever happens, the end of ctx included, it removes what it
// has made. It returns [ErrFailed] when a check failed, and a
// *[tempdb.CleanupError], on top of any other error, when something stayed behind.
func Run(ctx context.Context, opts Options) (err error) {
	if opts.Rows == 0 {
		opts.Rows = defaultRows
	}
	d := &demo{Options: opts, line: display.NewLine(opts.Progress)}
	temp, err := tempdb.Open(ctx, opts.URL, "demo", d.line)
	if err != nil {
		return err
	}
	defer func() {
		if left := temp.Close(ctx); left != nil {
			err = errors.Join(err, left)
			return
		}
		d.step("Clean up", "%s", temp.Removed)
	}()
	d.step("Server", "%s", temp.Origin)
	return d.run(ctx, temp.URL)
}

// demo is one run.
type demo struct {
	Options
	line     *display.Line // progress
	url      string
	settings pgid.Settings
}

func (d *demo) run(ctx context.Context, url string) error {
	d.url = url
	if err := migrations.Up(ctx, url); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err // it says that it failed to connect, and where
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if d.settings, err = pgid.NewClient(conn).Settings(ctx); err != nil {
		return err
	}
	d.step("Migrate", "schema pgid, version %d; IDs count from %s",
		d.settings.Version, d.settings.Layout.Epoch().Format("2006-01-02T15:04:05Z"))

	if err := d.createTables(ctx, conn); err != nil {
		return err
	}
	w, err := d.write(ctx, conn)
	if err != nil {
		return err
	}
	d.step("Write", "%s rows by %d sessions at once in %.1f s: %s IDs a second, as the writers see it",
		display.Count(w.rows()), sessionCount, w.took.Seconds(), display.Count(int(float64(w.rows())/w.took.Seconds())))

	checks, shards, err := d.check(ctx, conn, w)
	if err != nil {
		return err
	}
	if err := d.report(ctx, conn, checks, shards); err != nil {
		return err
	}
	for _, c := range checks {
		if !c.ok {
			return ErrFailed
		}
	}
	return nil
}

func (d *demo) createTables(ctx context.Context, conn *pgx.Conn) error {
	var created int
	if err := conn.QueryRow(ctx, "SELECT pgid.create_shards(0, $1::integer)", shardCount-1).Scan(&created); err != nil {
		return fmt.Errorf("create shards: %w", err)
	}
	d.step("Shards", "%d created, 0 to %d", created, shardCount-1)
	if _, err := conn.Exec(ctx, "CREATE SCHEMA pgid_demo"); err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	for shard := range shardCount {
		_, err := conn.Exec(ctx, fmt.Sprintf(`
			CREATE TABLE pgid_demo.photo_%[1]d (
			  id      bigint  PRIMARY KEY DEFAULT pgid.next_id(%[1]d),
			  session integer NOT NULL,
			  n       integer NOT NULL,
			  title   text    NOT NULL
			)`, shard))
		if err != nil {
			return fmt.Errorf("create tables: %w", err)
		}
	}
	d.step("Tables", "pgid_demo.photo_0 to photo_%d, id bigint PRIMARY KEY DEFAULT pgid.next_id(shard)", shardCount-1)
	return nil
}

// allPhotos is the rows of all tables, with the shard that each table stands for.
func allPhotos() string {
	parts := make([]string, shardCount)
	for shard := range parts {
		parts[shard] = fmt.Sprintf("SELECT %[1]d AS shard, id, session, n, title FROM pgid_demo.photo_%[1]d", shard)
	}
	return "(" + strings.Join(parts, " UNION ALL ") + ")"
}

// step announces a step that is done, and its result.
func (d *demo) step(name, format string, args ...any) {
	_, _ = fmt.Fprintf(d.Out, "%-10s%s\n", name, fmt.Sprintf(format, args...))
}
