package faults

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// Two hundred clients share the eight sessions of a pooler in transaction mode: IDs are
// drawn in every way, none repeats, no call fails, and no client sees another's setting.
func TestPooler(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		settings []string
		modes    []pgx.QueryExecMode
	}{
		{"nothing prepared", nil, []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}},
		{"prepared", []string{pgtest.PreparedStatements + " = 100"}, []pgx.QueryExecMode{
			pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheStatement,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := pgtest.New(t)
			db.Exec(t, "SELECT pgid.create_shards(5, 9)")
			db.Exec(t, "CREATE TABLE photo (id bigint PRIMARY KEY DEFAULT pgid.next_id(5))")
			pooler := pgtest.NewPooler(t, db, c.settings...)
			ledger := NewLedger()
			const clients = 200
			start, group := make(chan struct{}), sync.WaitGroup{}
			for n, mode := range c.modes {
				pool := poolOf(t, pooler.URL(db), mode, clients/len(c.modes)+1)
				allocator, err := pgid.NewAllocator(pgid.NewClient(pool), 5, pgid.AllocatorConfig{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(allocator.Close)
				for i := n; i < clients; i += len(c.modes) {
					p := &pooled{
						conn: pool, client: pgid.NewClient(pool), allocator: allocator,
						book:   ledger.Book(fmt.Sprintf("%s %d", mode, i)),
						cached: ledger.Book(fmt.Sprintf("%s %d, allocator", mode, i)),
						own:    pgid.Shard(6 + i%4),
					}
					group.Go(func() {
						<-start
						if err := p.work(t.Context()); err != nil {
							t.Errorf("%s: %v", p.book.Name, err)
						}
					})
				}
			}
			close(start)
			group.Wait()
			if n := pgtest.Query[int](t, db, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"); n > 8 {
				t.Errorf("%d sessions for the clients: the pooler does not pool", n)
			}
			kept(t, ledger, db)
		})
	}
}

// poolOf opens a pool whose clients all hold a connection to the pooler.
func poolOf(t *testing.T, url string, mode pgx.QueryExecMode, size int) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.DefaultQueryExecMode = mode
	config.MaxConns = int32(size)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// pooled is a client behind a pooler.
type pooled struct {
	conn         *pgxpool.Pool
	client       *pgid.Client
	allocator    *pgid.Allocator
	book, cached *Book
	own          pgid.Shard // that it sets in its transactions
}

func (p *pooled) work(ctx context.Context) error {
	for range 6 {
		for _, step := range []struct {
			name string
			book *Book
			kind Kind
			draw func() ([]pgid.ID, error)
		}{
			{"next_id", p.book, Strict, func() ([]pgid.ID, error) { return one(p.client.NextID(ctx, 5)) }},
			{"SET LOCAL", p.book, Strict, func() ([]pgid.ID, error) { return p.nextOfSetting(ctx) }},
			{"next_ids", p.book, Strict, func() ([]pgid.ID, error) { return p.nextIDs(ctx) }},
			{"reserve", p.book, Strict, func() ([]pgid.ID, error) { return p.client.NextIDs(ctx, 5, 10) }},
			{"allocator", p.cached, Cached, func() ([]pgid.ID, error) { return one(p.allocator.Next(ctx)) }},
			{"insert", p.book, Strict, func() ([]pgid.ID, error) {
				var id pgid.ID
				err := p.conn.QueryRow(ctx, "INSERT INTO photo DEFAULT VALUES RETURNING id").Scan(&id)
				return one(id, err)
			}},
		} {
			if err := step.book.Draw(step.kind, step.draw); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
		}
		var id pgid.ID
		switch err := p.conn.QueryRow(ctx, "SELECT pgid.next_id()").Scan(&id); {
		case err == nil:
			return fmt.Errorf("with no setting of its own, it got %d of shard %d", id, id.Shard())
		case pgtest.SQLState(err) != "22023":
			return fmt.Errorf("with no setting of its own: %w, want SQLSTATE 22023", err)
		}
	}
	return nil
}

// nextOfSetting draws from the shard that it sets for a transaction.
func (p *pooled) nextOfSetting(ctx context.Context) ([]pgid.ID, error) {
	var id pgid.ID
	err := pgx.BeginFunc(ctx, p.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL pgid.shard = %d", p.own)); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, "SELECT pgid.next_id()").Scan(&id); err != nil {
			return err
		}
		if id.Shard() != p.own {
			return fmt.Errorf("an ID of shard %d, and %d is set", id.Shard(), p.own)
		}
		return nil
	})
	return one(id, err)
}

func (p *pooled) nextIDs(ctx context.Context) ([]pgid.ID, error) {
	rows, err := p.conn.Query(ctx, "SELECT pgid.next_ids(5, 10)")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[pgid.ID])
}
