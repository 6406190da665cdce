package postgresids_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// The environment of a child process of TestMix, and of who wants a larger one.
const (
	mixURL = "PGID_TEST_MIX_URL"   // the database that a child draws from
	mixFor = "PGID_TEST_MIX_CHILD" // how many IDs it draws
	mixIDs = "PGID_TEST_MIX"       // how many IDs the test draws, over all processes
)

// A drawing is what a child of TestMix tells of one call: when it began and ended, by
// the machine's clock, and the range that it got.
type drawing struct {
	Start, End  int64 // nanoseconds
	First, Last pgid.ID
	Ordered     bool // the call promises G2; an allocator's IDs are in its own order only
}

// No ID twice, and each larger than those returned before it, over sessions, ways to
// draw, and processes, on shards that they share. PGID_TEST_MIX says how many: the
// acceptance is of 5,000,000 (make mix).
func TestMix(t *testing.T) {
	t.Parallel()
	total := 1_000_000
	if text := os.Getenv(mixIDs); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s=%q is not a number of IDs", mixIDs, text)
		}
		total = n
	}
	const processes, shards = 4, 4
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(0, $1)", shards-1)
	start := time.Now()
	drawn := make([][]drawing, processes)
	var group errgroup.Group
	for i := range drawn {
		group.Go(func() (err error) {
			drawn[i], err = mixProcess(t.Context(), db.URL, total/processes)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)

	all := slices.Concat(drawn...)
	ticks := make([][][2]pgid.Tick, shards)
	ids := 0
	for _, d := range all {
		shard := d.First.Shard()
		if d.Last.Shard() != shard || d.Last < d.First {
			t.Fatalf("a range from %d to %d", d.First, d.Last)
		}
		ticks[shard] = append(ticks[shard], [2]pgid.Tick{d.First.Tick(), d.Last.Tick()})
		ids += int(d.Last.Tick()-d.First.Tick()) + 1
	}
	twice := 0
	for _, ranges := range ticks {
		slices.SortFunc(ranges, func(a, b [2]pgid.Tick) int { return int(a[0] - b[0]) })
		high := pgid.Tick(-1)
		for _, r := range ranges {
			twice += int(max(0, min(high, r[1])-r[0]+1))
			high = max(high, r[1])
		}
	}
	if twice > 0 {
		t.Errorf("%d of %d IDs were issued twice", twice, ids)
	}
	if ids < total {
		t.Errorf("%d IDs, want %d", ids, total)
	}
	pgtest.RequireNoLocks(t, db.URL)
	checkRealTime(t, inRealTime(drawn))
	t.Logf("%d IDs in %d calls of %d processes: %d twice, %.0f a second", ids, len(all), processes, twice, float64(ids)/took.Seconds())
}

// inRealTime is the calls that promise an order.
func inRealTime(drawn [][]drawing) [][]call {
	calls := make([][]call, 0, len(drawn))
	for _, process := range drawn {
		var ordered []call
		for _, d := range process {
			if d.Ordered {
				ordered = append(ordered, call{d.Start, d.End, d.First, d.Last})
			}
		}
		slices.SortFunc(ordered, func(a, b call) int { return int(a.end - b.end) })
		calls = append(calls, ordered)
	}
	return calls
}

// mixProcess runs this test binary as a child that draws n IDs, and reads what it tells.
func mixProcess(ctx context.Context, url string, n int) ([]drawing, error) {
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), mixURL+"="+url, mixFor+"="+strconv.Itoa(n))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		return nil, err
	}
	var all []drawing
	in := bufio.NewReaderSize(out, 1<<20)
	for {
		var record [5]int64
		if err = binary.Read(in, binary.LittleEndian, &record); err != nil {
			break
		}
		all = append(all, drawing{record[0], record[1], pgid.ID(record[2]), pgid.ID(record[3]), record[4] == 1})
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return all, child.Wait()
}

// mixChild is the child: it draws by every way there is at once, until together they
// have n IDs, checks that each caller's ascend, and writes all to stdout.
func mixChild(url string, n int64) error {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	config.MaxConns = 6
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	client := pgid.NewClient(pool)
	// Each way has its share: the round trips of single calls are slow.
	share := func(percent int64) *atomic.Int64 {
		var left atomic.Int64
		left.Store(n * percent / 100)
		return &left
	}
	var callers []mixCaller
	single, bulk, set, ranges, handed := share(2), share(28), share(20), share(20), share(30)
	for i := range 2 {
		shard := pgid.Shard(i)
		callers = append(callers,
			mixCaller{single, true, func(int) ([]pgid.ID, error) { return one(client.NextID(ctx, shard)) }},
			mixCaller{bulk, true, func(int) ([]pgid.ID, error) {
				return many(pool.Query(ctx, "SELECT pgid.next_id($1) FROM generate_series(1, 200)", shard))
			}},
			mixCaller{set, true, func(k int) ([]pgid.ID, error) {
				return many(pool.Query(ctx, "SELECT pgid.next_ids($1, $2)", shard, 1+k*37%500))
			}},
			mixCaller{ranges, true, func(k int) ([]pgid.ID, error) { return client.NextIDs(ctx, shard, 1+k*41%2000) }},
		)
	}
	for shard := range pgid.Shard(4) {
		allocator, err := pgid.NewAllocator(client, shard, pgid.AllocatorConfig{})
		if err != nil {
			return err
		}
		defer allocator.Close()
		callers = append(callers, mixCaller{handed, false, func(int) (ids []pgid.ID, err error) {
			for range 50 {
				id, err := allocator.Next(ctx)
				if err != nil {
					return nil, err
				}
				ids = append(ids, id)
			}
			return ids, nil
		}})
	}
	told := make([][]drawing, len(callers))
	var group errgroup.Group
	for i, caller := range callers {
		group.Go(func() (err error) {
			told[i], err = caller.run()
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	for _, d := range slices.Concat(told...) {
		ordered := int64(0)
		if d.Ordered {
			ordered = 1
		}
		if err := binary.Write(out, binary.LittleEndian, [5]int64{d.Start, d.End, int64(d.First), int64(d.Last), ordered}); err != nil {
			return err
		}
	}
	return out.Flush()
}

// A mixCaller draws by one way until its share is used up.
type mixCaller struct {
	left    *atomic.Int64
	ordered bool
	draw    func(k int) ([]pgid.ID, error)
}

func (c mixCaller) run() ([]drawing, error) {
	var told []drawing
	last := pgid.ID(-1)
	for k := 0; c.left.Load() > 0; k++ {
		start := time.Now().UnixNano()
		ids, err := c.draw(k)
		if err != nil {
			return nil, err
		}
		end := time.Now().UnixNano()
		c.left.Add(-int64(len(ids)))
		for _, id := range ids {
			if id <= last {
				return nil, fmt.Errorf("a caller got %d after %d", id, last)
			}
			if n := len(told); n > 0 && told[n-1].Start == start && id.Tick() == told[n-1].Last.Tick()+1 {
				told[n-1].Last = id // one run of consecutive ticks
			} else {
				told = append(told, drawing{start, end, id, id, c.ordered})
			}
			last = id
		}
	}
	return told, nil
}

func one(id pgid.ID, err error) ([]pgid.ID, error) { return []pgid.ID{id}, err }

func many(rows pgx.Rows, err error) ([]pgid.ID, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[pgid.ID])
}
