package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nextid/postgres-ids/pgid"
)

// An issue is an ID as a client got it: in a transaction that began before and ended
// after, by this process' clock.
type issue struct {
	id         pgid.ID
	start, end time.Duration
	atTarget   bool
}

// mover is a client that follows its shard: when the source has retired it, it goes on
// at the target, once that has it.
func mover(ctx context.Context, source, target *pgid.Client, begin time.Time, drawn *[2]atomic.Int64, stop *atomic.Bool) ([]issue, error) {
	clients, at := [2]*pgid.Client{source, target}, 0
	var issues []issue
	for n := 0; !stop.Load(); n++ {
		i := issue{start: time.Since(begin), atTarget: at == 1}
		var err error
		if n%5 == 4 {
			var r pgid.Range
			if r, err = clients[at].Reserve(ctx, 5, 50); err == nil {
				ids := slices.Collect(r.All())
				i.id = ids[0]
				issues = append(issues, i)
				issues[len(issues)-1].end = time.Since(begin)
				i.id = ids[len(ids)-1]
			}
		} else {
			i.id, err = clients[at].NextID(ctx, 5)
		}
		switch {
		case err == nil:
			i.end = time.Since(begin)
			issues = append(issues, i)
			drawn[at].Add(1)
		case at == 0 && errors.Is(err, pgid.ErrShardRetired):
			at = 1
		case at == 1 && (errors.Is(err, pgid.ErrNoShard) || errors.Is(err, pgid.ErrShardBusy)):
			time.Sleep(5 * time.Millisecond)
		default:
			return nil, err
		}
	}
	return issues, nil
}

// Clients draw all the time, while their shard moves: no ID comes twice, and they rise
// over the move, whether the target's shard is new or was created ahead.
func TestMoveUnderLoad(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]string{"new": "SELECT", "created ahead": "SELECT pgid.create_shard(5)"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, target := databases(t)
			target.Exec(t, prepare)
			source.Exec(t, "SELECT pgid.configure(max_lead_ms => 1000)") // the source runs ahead
			target.Exec(t, "SELECT pgid.configure(max_lead_ms => 1000)")
			var stop atomic.Bool
			var group errgroup.Group
			const clients = 8
			issues := make([][]issue, clients)
			var drawn [2]atomic.Int64 // from the source and the target
			await := func(from int, atLeast int64) {
				t.Helper()
				for start := time.Now(); drawn[from].Load() < atLeast && !stop.Load(); time.Sleep(10 * time.Millisecond) {
					if time.Since(start) > 2*time.Minute {
						t.Fatalf("%d IDs drawn, want %d", drawn[from].Load(), atLeast)
					}
				}
			}
			begin := time.Now()
			for c := range issues {
				there, here := pgid.NewClient(source.Connect(t)), pgid.NewClient(target.Connect(t))
				group.Go(func() (err error) {
					if issues[c], err = mover(t.Context(), there, here, begin, &drawn, &stop); err != nil {
						stop.Store(true)
					}
					return err
				})
			}
			await(0, 1000)
			tx := openTransaction(t, source) // so that the move takes its time
			source.Exec(t, "SELECT pgid.reserve(5, 500000)")
			done := start(t.Context(), moveArgs(source, target)...)
			time.Sleep(400 * time.Millisecond)
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			(<-done).prints(t)
			await(1, 1000)
			stop.Store(true)
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			checkIssues(t, issues)
		})
	}
}

func checkIssues(t *testing.T, drawn [][]issue) {
	t.Helper()
	all := slices.Concat(drawn...)
	slices.SortFunc(all, func(a, b issue) int { return cmp.Compare(a.id, b.id) })
	at := [2]int{}
	var started issue // the latest to begin, of those with smaller IDs
	for i, this := range all {
		if this.atTarget {
			at[1]++
		} else {
			at[0]++
		}
		if i == 0 {
			started = this
			continue
		}
		before := all[i-1]
		switch {
		case before.id == this.id:
			t.Fatalf("%d was issued twice", this.id)
		case before.atTarget && !this.atTarget:
			t.Fatalf("the source issued %d, and the target the smaller %d", this.id, before.id)
		case this.end < started.start:
			t.Fatalf("%d was issued by a call that started after %d had been returned", started.id, this.id)
		case this.start > started.start:
			started = this
		}
	}
	if at[0] < 1000 || at[1] < 1000 {
		t.Errorf("%d IDs of the source and %d of the target: too few to tell", at[0], at[1])
	}
	t.Logf("%d IDs of the source, %d of the target", at[0], at[1])
}
