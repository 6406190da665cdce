package demo

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/nextid/postgres-ids/internal/display"
	"github.com/nextid/postgres-ids/pgid"
)

const (
	batchRows  = 490 // of one INSERT ... SELECT
	singleRows = 10  // single-row INSERTs after each batch
)

// written is what the sessions wrote, as they saw it.
type written struct {
	sessions   []*session
	took       time.Duration
	begin, end time.Time // of the writing, by the server's clock
	perShard   [shardCount]int
}

func (w *written) rows() int {
	n := 0
	for _, s := range w.sessions {
		n += len(s.received)
	}
	return n
}

// A session writes rows over a connection of its own.
type session struct {
	number   int
	received []receipt // in the order in which they came; row n is received[n-1]
}

// A receipt is an ID that came back from an INSERT, and the shard it was asked of.
type receipt struct {
	id    pgid.ID
	shard pgid.Shard
}

// write lets all sessions write at once.
func (d *demo) write(ctx context.Context, conn *pgx.Conn) (*written, error) {
	w := &written{}
	conns := make([]*pgx.Conn, sessionCount)
	for i := range conns {
		c, err := pgx.Connect(ctx, d.url)
		if err != nil {
			return nil, err // it says that it failed to connect, and where
		}
		defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
		conns[i] = c
		w.sessions = append(w.sessions, &session{number: i + 1})
	}
	if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&w.begin); err != nil {
		return nil, fmt.Errorf("read the clock: %w", err)
	}

	var total atomic.Int64
	defer d.watch(&total)()
	start := time.Now()
	group, writing := errgroup.WithContext(ctx)
	for i, s := range w.sessions {
		rows := d.Rows / sessionCount
		if i < d.Rows%sessionCount {
			rows++
		}
		group.Go(func() error {
			if err := s.write(writing, conns[i], rows, &total); err != nil {
				return fmt.Errorf("session %d: %w", s.number, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	w.took = time.Since(start)
	if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&w.end); err != nil {
		return nil, fmt.Errorf("read the clock: %w", err)
	}
	for _, s := range w.sessions {
		for _, r := range s.received {
			w.perShard[r.shard]++
		}
	}
	return w, nil
}

// write writes rows in batches and one by one, to one shard after the other.
func (s *session) write(ctx context.Context, conn *pgx.Conn, rows int, total *atomic.Int64) error {
	shard := s.number % shardCount
	insert := func(rows int) error {
		if err := s.insert(ctx, conn, pgid.Shard(shard), rows); err != nil {
			return err
		}
		total.Add(int64(rows))
		shard = (shard + 1) % shardCount
		return nil
	}
	for len(s.received) < rows {
		if err := insert(min(batchRows, rows-len(s.received))); err != nil {
			return err
		}
		for range min(singleRows, rows-len(s.received)) {
			if err := insert(1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *session) insert(ctx context.Context, conn *pgx.Conn, shard pgid.Shard, n int) error {
	first := len(s.received) + 1
	var rows pgx.Rows
	if n == 1 {
		rows, _ = conn.Query(ctx, fmt.Sprintf(`
			INSERT INTO pgid_demo.photo_%d (session, n, title)
			VALUES ($1, $2, $3)
			RETURNING id`, shard),
			s.number, first, fmt.Sprintf("single %d", first))
	} else {
		rows, _ = conn.Query(ctx, fmt.Sprintf(`
			INSERT INTO pgid_demo.photo_%d (session, n, title)
			SELECT $1::integer, n, 'batch ' || n
			  FROM generate_series($2::integer, $3::integer) AS n
			RETURNING id`, shard),
			s.number, first, first+n-1)
	}
	var id pgid.ID
	_, err := pgx.ForEachRow(rows, []any{&id}, func() error { // it returns the query's error, too
		s.received = append(s.received, receipt{id, shard})
		return nil
	})
	return err
}

// watch shows how many rows there are until the returned function is called.
func (d *demo) watch(total *atomic.Int64) (stop func()) {
	if d.line == nil {
		return func() {}
	}
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case <-done:
				d.line.Clear()
				return
			case <-time.After(100 * time.Millisecond):
				d.line.Show("%s of %s rows", display.Count(int(total.Load())), display.Count(d.Rows))
			}
		}
	}()
	return func() {
		close(done)
		<-gone
	}
}
