// Package bench measures pgid beside its peers: a bare nextval, the function that
// Instagram published, and UUIDs. All that is compared is measured in turn, on one
// server, in one run: ratios carry over to another machine, absolute figures do not.
package bench

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nextid/postgres-ids/internal/display"
	"github.com/nextid/postgres-ids/migrations"
)

// Options configure a benchmark. What it does not use it ignores.
type Options struct {
	Parameters
	Progress *display.Line // nil if nobody watches
}

// runner is one run of a benchmark.
type runner struct {
	Options
	url    string
	conn   *pgx.Conn // for all that needs one session
	conns  []*pgx.Conn
	report *Report
}

// start prepares a database, which nothing else should use, with the given number of
// shards. The caller closes the runner, and removes the database.
func start(ctx context.Context, benchmark, url string, opts Options, shards int) (*runner, error) {
	r := &runner{Options: opts, url: url, report: &Report{
		Benchmark:  benchmark,
		Taken:      time.Now().UTC().Truncate(time.Second),
		Parameters: opts.Parameters,
		Client:     Client{CPUs: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version()},
	}}
	if err := r.prepare(ctx, shards); err != nil {
		r.close(ctx)
		return nil, err
	}
	return r, nil
}

func (r *runner) prepare(ctx context.Context, shards int) (err error) {
	r.Progress.Show("preparing")
	if err := migrations.Up(ctx, r.url); err != nil {
		return err
	}
	if r.conn, err = r.connect(ctx); err != nil {
		return err
	}
	for _, sql := range []string{Instagram(), setUp} {
		if _, err := r.conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	if err := r.readServer(ctx); err != nil {
		return err
	}
	return r.createShards(ctx, 0, shards)
}

// settings that figures depend on.
var settings = []string{"fsync", "full_page_writes", "max_wal_size", "shared_buffers", "synchronous_commit", "wal_level"}

func (r *runner) readServer(ctx context.Context) error {
	s := &r.report.Server
	err := r.conn.QueryRow(ctx, "SELECT current_setting('server_version'), current_setting('server_version_num')::integer").
		Scan(&s.Version, &s.Number)
	if err != nil {
		return err
	}
	s.Settings = map[string]string{}
	for _, name := range settings {
		var value string
		if err := r.conn.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value); err != nil {
			return err
		}
		s.Settings[name] = value
	}
	return nil
}

// createShards brings the database from some shards to more, in steps: a transaction
// holds locks on two sequences a shard, and the lock table is finite.
func (r *runner) createShards(ctx context.Context, from, to int) error {
	const step = 1000
	for first := from; first < to; first += step {
		r.Progress.Show("shard %s of %s", display.Count(first), display.Count(to))
		last := min(first+step, to) - 1
		if _, err := r.conn.Exec(ctx, "SELECT pgid.create_shards($1::integer, $2::integer)", first, last); err != nil {
			return fmt.Errorf("create shards: %w", err)
		}
	}
	return nil
}

func (r *runner) close(ctx context.Context) {
	r.Progress.Clear()
	ctx = context.WithoutCancel(ctx)
	for _, conn := range append(r.conns, r.conn) {
		if conn != nil {
			_ = conn.Close(ctx)
		}
	}
}

// connect opens a session. A statement is one round trip, from the first call on.
func (r *runner) connect(ctx context.Context) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(r.url)
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	return pgx.ConnectConfig(ctx, config)
}

// sessions returns n sessions that stay open until the run ends.
func (r *runner) sessions(ctx context.Context, n int) ([]*pgx.Conn, error) {
	for len(r.conns) < n {
		conn, err := r.connect(ctx)
		if err != nil {
			return nil, fmt.Errorf("session %d of %d could not be opened: raise the server's max_connections, or lower --sessions: %w", len(r.conns)+1, n, err)
		}
		r.conns = append(r.conns, conn)
	}
	return r.conns[:n], nil
}

// measure runs a group's trials in turn and adds them to the report.
func (r *runner) measure(ctx context.Context, g Group, trials []trial, bases ...string) error {
	values, err := inTurn(ctx, r.Rounds, trials, func(round int, name string) {
		if round == 0 {
			r.Progress.Show("%s: %s, warming up", g.Title, name)
		} else {
			r.Progress.Show("%s: %s, round %d of %d", g.Title, name, round, r.Rounds)
		}
	})
	if err != nil {
		return fmt.Errorf("%s: %w", g.Name, err)
	}
	g.fill(trials, values, bases...)
	r.report.add(g)
	return nil
}

// timed is how long a statement takes in the first session.
func (r *runner) timed(ctx context.Context, sql string) (time.Duration, error) {
	begin := time.Now()
	_, err := r.conn.Exec(ctx, sql)
	return time.Since(begin), err
}

// rest waits until no shard leads the clock any more, however many IDs were drawn.
func rest(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(110 * time.Millisecond): // max_lead and a little
		return nil
	}
}

func micros(d time.Duration, n int) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(n) }
