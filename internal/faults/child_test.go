package faults

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// childURL is in the environment of a child process: the database that it draws from, by
// every way there is, until it is killed.
const childURL = "PGID_TEST_FAULTS_CHILD"

// childPool is the pool that it leases from, beside the shards 0 to 2.
const childPool = "pool"

// Client processes are killed at any moment of what they do.
func TestKilledClients(t *testing.T) {
	t.Parallel()
	rounds := 5
	if soak(t) > 0 {
		rounds = 50
	}
	db := pgtest.New(t)
	shards := upTo(3)
	db.Exec(t, "SELECT pgid.create_shards(0, 2)")
	db.Exec(t, "SELECT pgid.create_pool($1, 100, 115)", childPool)
	db.Exec(t, createItems(shards))
	ledger, random := NewLedger(), pgtest.Seed(t)
	var group sync.WaitGroup
	for i := range 2 {
		lives := make([]time.Duration, rounds)
		for n := range lives {
			lives[n] = time.Duration(300+random.IntN(700)) * time.Millisecond
		}
		group.Go(func() {
			for n, life := range lives {
				if err := child(t.Context(), db.URL, ledger, fmt.Sprintf("client process #%d.%d", i, n), life); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	requireKept(t, ledger, 1000*rounds)
	requireServed(t, ledger, 10*time.Second)
	pgtest.RequireNoLocks(t, db.URL)
	for _, shard := range shards {
		pgtest.Query[pgid.ID](t, db, "SELECT pgid.next_id($1)", shard)
	}
}

// child runs this test binary as a client that is killed after a while, and enters what
// it told in the ledger.
func child(ctx context.Context, url string, ledger *Ledger, name string, life time.Duration) error {
	process := exec.CommandContext(ctx, os.Args[0])
	process.Env = append(os.Environ(), childURL+"="+url)
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		return err
	}
	told := bufio.NewReader(out)
	_, _ = told.Peek(1) // it may take long to start
	timer := time.AfterFunc(life, func() { _ = process.Process.Kill() })
	defer timer.Stop()
	readErr := ledger.Read(name, told)
	if err := process.Wait(); err != nil && !timer.Stop() {
		return readErr // killed, as it should be
	}
	return fmt.Errorf("%s ended before it was killed: %v", name, process.ProcessState)
}

// runChild is the child, if this process is one: then it does not return.
func runChild() bool {
	url := os.Getenv(childURL)
	if url == "" {
		return false
	}
	ledger := NewPipeLedger(os.Stdout)
	clients, shards := 0, upTo(3)
	f := newFleet(context.Background(), url, func(string) *Book {
		clients++
		return ledger.Client(clients)
	})
	f.add("single", single(shards, Strict))
	f.add("bulk", bulk(shards, 200, Strict))
	f.add("insert", insert(shards, 10))
	f.add("next_ids", nextIDs(shards, 500))
	f.add("reserve", reserve(shards))
	f.add("lease", leased(childPool))
	pool, err := pgxpool.New(f.ctx, url)
	if err == nil {
		err = addAllocators(f, pool, shards)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	time.Sleep(time.Minute) // a parent that is gone kills nobody
	return true
}

// addAllocators starts two clients on an allocator of each shard.
func addAllocators(f *fleet, db pgid.Querier, shards []int) error {
	client := pgid.NewClient(db)
	for _, shard := range shards {
		allocator, err := pgid.NewAllocator(client, pgid.Shard(shard), pgid.AllocatorConfig{})
		if err != nil {
			return err
		}
		context.AfterFunc(f.ctx, allocator.Close)
		for i := range 2 {
			f.addFree(fmt.Sprintf("allocator #%d/%d", shard, i), allocated(allocator))
		}
	}
	return nil
}

// allocated takes an allocator's IDs, a hundred a step.
func allocated(allocator *pgid.Allocator) step {
	return func(ctx context.Context, c *client) error {
		time.Sleep(time.Millisecond) // else it would be all that goes on
		start := c.book.now()
		ids := make([]pgid.ID, 0, 100)
		var err error
		for range cap(ids) {
			var id pgid.ID
			if id, err = allocator.Next(ctx); err != nil {
				break
			}
			ids = append(ids, id)
		}
		if enterErr := c.book.Enter(Cached, start, ids...); enterErr != nil {
			return enterErr
		}
		return err
	}
}
