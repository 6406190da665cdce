package faults

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/nextid/postgres-ids/pgid"
)

// The ways to draw an ID in SQL, each a step of a client's. A client takes the shards in
// turn.
//
// With a server that is killed and comes back with a clock set back, only committed IDs
// are safe. A transaction that wrote something (insert, nextIDs, reserve) has flushed
// its sequences with its commit. A SELECT of next_id may have written nothing at all:
// PostgreSQL logs a sequence once for 32 values, and the transaction that did may not be
// through yet. So single and bulk are Loose where both faults come together.

// single is SELECT next_id, a round trip an ID.
func single(shards []int, kind Kind) step {
	return func(ctx context.Context, c *client) error {
		return c.book.Draw(kind, func() ([]pgid.ID, error) {
			return collect(c.conn.Query(ctx, "SELECT pgid.next_id($1)", c.shard(shards)))
		})
	}
}

// bulk is many calls of next_id in one statement.
func bulk(shards []int, count int, kind Kind) step {
	return func(ctx context.Context, c *client) error {
		return c.book.Draw(kind, func() ([]pgid.ID, error) {
			return collect(c.conn.Query(ctx, "SELECT pgid.next_id($1) FROM generate_series(1, $2)", c.shard(shards), count))
		})
	}
}

// nextIDs is SELECT next_ids, up to count at once.
func nextIDs(shards []int, count int) step {
	return func(ctx context.Context, c *client) error {
		kind := Strict
		return c.book.Draw(kind, func() ([]pgid.ID, error) {
			return collect(c.conn.Query(ctx, "SELECT pgid.next_ids($1, $2)", c.shard(shards), 1+c.call*37%count))
		})
	}
}

// reserve is reserve, of up to 2000 at once.
func reserve(shards []int) step {
	return func(ctx context.Context, c *client) error {
		return c.book.DrawRange(Strict, func() (pgid.Range, error) {
			var r pgid.Range
			err := c.conn.QueryRow(ctx, "SELECT first, last FROM pgid.reserve($1, $2)", c.shard(shards), 1+c.call*41%2000).
				Scan(&r.First, &r.Last)
			return r, err
		})
	}
}

// insert is an INSERT of some rows into the table that createItems made.
func insert(shards []int, rows int) step {
	return func(ctx context.Context, c *client) error {
		return c.book.Draw(Strict, func() ([]pgid.ID, error) {
			ids, err := collect(c.conn.Query(ctx,
				fmt.Sprintf("INSERT INTO item_%d (note) SELECT 'x' FROM generate_series(1, $1) RETURNING id", c.shard(shards)), rows))
			return ids, err
		})
	}
}

// createItems is the table for insert: its primary key is a witness too.
func createItems(shards []int) string {
	sql := ""
	for _, shard := range shards {
		sql += fmt.Sprintf("CREATE TABLE item_%[1]d (id bigint PRIMARY KEY DEFAULT pgid.next_id(%[1]d), note text);\n", shard)
	}
	return sql
}

// shard is the one whose turn it is.
func (c *client) shard(shards []int) int { return shards[c.call%len(shards)] }

// upTo is the shards from 0 to n-1.
func upTo(n int) []int {
	shards := make([]int, n)
	for i := range shards {
		shards[i] = i
	}
	return shards
}

// collect returns all IDs that arrived, also when the statement then failed.
func collect(rows pgx.Rows, err error) ([]pgid.ID, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []pgid.ID
	for rows.Next() {
		var id pgid.ID
		if err := rows.Scan(&id); err != nil {
			return ids, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
