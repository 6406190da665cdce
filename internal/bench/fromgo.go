package bench

import (
	"context"
	"time"

	"github.com/nextid/postgres-ids/pgid"
)

const (
	client    = "Client.NextID"
	allocator = "Allocator.Next"

	// What a rested shard gives at once is about 102,400 IDs. Beyond it, an allocator
	// gives what the shard does for long.
	burst = 120_000
)

// fromGo is what an ID costs a Go program: by a round trip each, and from an
// Allocator's ranges, whose fetches are included.
func (r *runner) fromGo(ctx context.Context) error {
	conn, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	alloc, err := pgid.NewAllocator(pgid.NewClient(conn), 2, pgid.AllocatorConfig{})
	if err != nil {
		return err
	}
	defer alloc.Close()

	single := pgid.NewClient(r.conn)
	nextID := func(ctx context.Context) (pgid.ID, error) { return single.NextID(ctx, 0) }
	// Half of the burst or less: no call of these waits for the clock.
	costs := []trial{
		drawing(client, 0, max(1, r.IDs/100), nextID, nanos),
		drawing(allocator, min(r.IDs, burst/4), min(r.IDs, burst/4), alloc.Next, nanos),
	}
	if err := r.measure(ctx, Group{
		Name: "go_cost", Title: "From Go, one caller", Unit: "ns/ID", Better: less,
	}, costs, client); err != nil {
		return err
	}
	return r.measure(ctx, Group{
		Name: "go_sustained", Title: "From Go, one caller, one shard, for long", Unit: "IDs/s", Better: more,
		Note: "A shard gives 1,024,000 a second.",
	}, []trial{drawing(allocator, min(r.IDs, burst), 2*r.IDs, alloc.Next, perSecond)})
}

// drawing draws some IDs from a rested shard, then n more that are measured.
func drawing(name string, before, n int, next func(context.Context) (pgid.ID, error), figure func(time.Duration, int) float64) trial {
	return trial{name: name, run: func(ctx context.Context) (float64, error) {
		if err := rest(ctx); err != nil {
			return 0, err
		}
		for range before {
			if _, err := next(ctx); err != nil {
				return 0, err
			}
		}
		begin := time.Now()
		for range n {
			if _, err := next(ctx); err != nil {
				return 0, err
			}
		}
		return figure(time.Since(begin), n), nil
	}}
}

func nanos(took time.Duration, n int) float64     { return float64(took.Nanoseconds()) / float64(n) }
func perSecond(took time.Duration, n int) float64 { return float64(n) / took.Seconds() }
