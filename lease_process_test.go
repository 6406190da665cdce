package postgresids_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// A holder is frozen, its window passes, another gets its shard, and it wakes: by a
// right clock or one that tells it that no time has passed, it issues none of the
// other's IDs, and finds out that its lease is lost.
func TestLeaseFrozenHolder(t *testing.T) {
	t.Parallel()
	for _, clock := range []string{"", "stopped", "backwards", "stepping"} {
		t.Run("clock "+clock, func(t *testing.T) {
			t.Parallel()
			db := pool(t, 3, 3)
			holder, err := startLeaseProcess(t.Context(), db.URL, time.Second, 10*time.Millisecond, clock, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- holder.read(nil) }()
			defer func() { _ = holder.cmd.Process.Kill() }()
			holder.await(t, 500)
			if err := holder.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			successor, err := pgid.NewClient(db.Pool).AcquireLease(ctx, "p", pgid.LeaseConfig{Window: 5 * time.Second, Wait: true})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = successor.Release(context.Background()) }()
			next := make(map[pgid.ID]bool)
			least := pgid.ID(1<<63 - 1)
			draw := func() {
				for range 5000 {
					id, err := successor.Next(ctx)
					if err != nil {
						t.Fatal(err)
					}
					next[id] = true
					least = min(least, id)
				}
			}
			draw()
			before := len(holder.drawn())
			if err := holder.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			draw()
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("the holder: %v", err)
				}
			case <-ctx.Done():
				t.Fatal("the holder never found out")
			}
			all := holder.drawn()
			for _, id := range all {
				if next[id] || id >= least {
					t.Fatalf("the holder issued %d, and its successor from %d on", id, least)
				}
			}
			if !slices.IsSorted(all) || successor.Fence() <= holder.fence {
				t.Errorf("fences %d and %d, ascending: %t", holder.fence, successor.Fence(), slices.IsSorted(all))
			}
			t.Logf("%d IDs before, %d once awake", before, len(all)-before)
		})
	}
}

// Many processes share a pool that is too small for all at once. Some have wrong
// clocks, some hold their lease over several windows, some are killed. No ID twice, and
// on each shard the holders' IDs are as their fences.
func TestLeaseProcesses(t *testing.T) {
	t.Parallel()
	const (
		processes, atOnce, shards = 100, 20, 16 // those that wait for a shard ask ten times a window
		idsEach, window           = 3000, time.Second
	)
	db := pool(t, 0, shards-1)
	random := pgtest.Seed(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	start := time.Now()
	var (
		all   = make([]*leaseProcess, processes)
		lost  atomic.Int64
		group errgroup.Group
	)
	group.SetLimit(atOnce)
	clocks := []string{"", "stopped", "fast", "backwards", "stepping"}
	for i := range all {
		pause := time.Millisecond
		if i%3 == 0 {
			pause = 80 * time.Millisecond // 2.4 s in all: more than two windows
		}
		clock := clocks[i%len(clocks)]
		killAt := 0
		if i%5 == 1 {
			killAt = 1 + random.IntN(idsEach-2*leaseBatch)
		}
		group.Go(func() error {
			p, err := startLeaseProcess(ctx, db.URL, window, pause, clock, idsEach)
			if err != nil {
				return err
			}
			all[i] = p
			err = p.read(func(n int) {
				if n > 0 && n == killAt {
					_ = p.cmd.Process.Kill()
				}
			})
			if killAt > 0 {
				return nil // it may have ended before
			}
			if err == nil && len(p.ids) != idsEach {
				lost.Add(1) // on a busy machine: it came too late to renew, and found another there
			}
			if err != nil {
				err = fmt.Errorf("process %d, clock %q, %d IDs: %w", i, clock, len(p.ids), err)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, %d lost their lease", time.Since(start), lost.Load())
	if lost.Load() > processes/4 {
		t.Errorf("%d of %d processes lost their lease", lost.Load(), processes)
	}
	checkLeaseProcesses(t, all)
}

func checkLeaseProcesses(t *testing.T, all []*leaseProcess) {
	t.Helper()
	slices.SortFunc(all, func(a, b *leaseProcess) int { return int(a.fence - b.fence) })
	seen := make(map[pgid.ID]int64)
	high := make(map[pgid.Shard]pgid.ID)
	fence, held, twice := int64(0), make(map[pgid.Shard]int), 0
	for _, p := range all {
		if p.fence <= fence {
			t.Fatalf("fence %d after %d", p.fence, fence)
		}
		fence = p.fence
		if len(p.ids) == 0 {
			continue
		}
		shard := p.ids[0].Shard()
		held[shard]++
		last := pgid.ID(-1)
		if of, ok := high[shard]; ok {
			last = of
		}
		for _, id := range p.ids {
			if other, ok := seen[id]; ok {
				twice++
				t.Errorf("ID %d of fence %d was issued by %d too", id, p.fence, other)
			}
			seen[id] = p.fence
			if id.Shard() != shard || id <= last {
				t.Fatalf("fence %d issued %d of shard %d after %d of shard %d", p.fence, id, id.Shard(), last, shard)
			}
			last = id
		}
		high[shard] = last
	}
	t.Logf("%d IDs of %d processes on %d shards: %d twice; leases of each: %v", len(seen), len(all), len(held), twice, held)
}
