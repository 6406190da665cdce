package faults

import (
	"context"

	"github.com/nextid/postgres-ids/pgid"
)

// leased takes leases of a pool through SQL, renews each some times, and gives it back or
// lets it expire. A window is entered whole, once its grant is committed.
func leased(pool string) step {
	var (
		shard    pgid.Shard
		fence    int64
		renewals int
	)
	const windowMillis = 100
	return func(ctx context.Context, c *client) error {
		start := c.book.now()
		var from, until pgid.Tick
		var err error
		switch {
		case fence == 0:
			err = c.conn.QueryRow(ctx, "SELECT shard, fence, from_tick, until_tick FROM pgid.acquire_lease($1, $2, $3)",
				pool, c.book.Name, windowMillis).Scan(&shard, &fence, &from, &until)
			renewals = c.call % 5
		case renewals > 0:
			renewals--
			err = c.conn.QueryRow(ctx, "SELECT from_tick, until_tick FROM pgid.renew_lease($1, $2, $3)",
				int(shard), fence, windowMillis).Scan(&from, &until)
		default:
			if c.call%2 == 0 {
				_, err = c.conn.Exec(ctx, "SELECT pgid.release_lease($1, $2)", int(shard), fence)
			}
			fence = 0
			return err
		}
		if err != nil {
			fence = 0
			return err
		}
		if until == from { // the window reaches far enough
			return nil
		}
		return c.book.enter(Run{from.ID(shard), (until - 1).ID(shard), start, c.book.now(), Cached})
	}
}
