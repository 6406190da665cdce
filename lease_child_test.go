package postgresids_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nextid/postgres-ids/pgid"
)

// The environment of a child process that holds a lease of the pool «p».
const (
	leaseURL    = "PGID_TEST_LEASE_URL"    // the database
	leaseWindow = "PGID_TEST_LEASE_WINDOW" // a duration
	leaseClock  = "PGID_TEST_LEASE_CLOCK"  // a childClock's kind; empty is the right one
	leaseIDs    = "PGID_TEST_LEASE_IDS"    // how many IDs it draws
	leasePause  = "PGID_TEST_LEASE_PAUSE"  // a duration, after each batch of them
)

const leaseBatch = 100

// The child runs before the tests do, and in place of them.
func init() {
	if os.Getenv(leaseURL) == "" {
		return
	}
	if err := leaseChild(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "pid %d: %v\n", os.Getpid(), err)
		os.Exit(1)
	}
	os.Exit(0)
}

// leaseChild acquires a lease, draws IDs until it has as many as it was asked for, or
// the lease has ended, and gives it back. It tells its fence, then its IDs, in batches.
func leaseChild(ctx context.Context) error {
	window, err := time.ParseDuration(os.Getenv(leaseWindow))
	if err != nil {
		return err
	}
	pause, err := time.ParseDuration(os.Getenv(leasePause))
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(os.Getenv(leaseIDs))
	if err != nil {
		return err
	}
	db, err := pgxpool.ParseConfig(os.Getenv(leaseURL))
	if err != nil {
		return err
	}
	db.MaxConns = 1 // a pool all the same: a renewal that times out costs its connection
	pool, err := pgxpool.NewWithConfig(ctx, db)
	if err != nil {
		return err
	}
	defer pool.Close()
	config := pgid.LeaseConfig{Window: window, Wait: true}
	if kind := os.Getenv(leaseClock); kind != "" {
		config.Clock = childClock{kind, time.Now()}
	}
	acquire, cancel := context.WithTimeout(ctx, 6*time.Minute) // its turn comes, also on a slow machine
	defer cancel()
	lease, err := pgid.NewClient(pool).AcquireLease(acquire, "p", config)
	if err != nil {
		return err
	}
	tell := func(numbers []int64) error { return binary.Write(os.Stdout, binary.LittleEndian, numbers) }
	if err := tell([]int64{lease.Fence()}); err != nil {
		return err
	}
	var batch []int64
	for n > 0 {
		id, err := lease.Next(ctx)
		switch {
		case err == nil:
			batch = append(batch, int64(id))
			n--
		case errors.Is(err, pgid.ErrLeaseLost):
			return tell(batch)
		case errors.Is(err, pgid.ErrLeaseExpired), errors.Is(err, pgid.ErrClockBehind), errors.Is(err, pgid.ErrTimeExhausted):
			time.Sleep(20 * time.Millisecond) // others need the processor to renew
		default:
			return err
		}
		if len(batch) == leaseBatch || n == 0 {
			if err := tell(batch); err != nil {
				return err
			}
			batch = batch[:0]
			time.Sleep(pause)
		}
	}
	if err := lease.Release(ctx); err != nil && !errors.Is(err, pgid.ErrLeaseLost) {
		return err
	}
	return nil
}

// A childClock is wrong in one of several ways.
type childClock struct {
	kind  string
	start time.Time
}

func (c childClock) Now() time.Time {
	now := time.Now()
	switch c.kind {
	case "stopped":
		return c.start
	case "fast":
		return c.start.Add(3 * now.Sub(c.start))
	case "backwards":
		return c.start.Add(c.start.Sub(now))
	case "stepping":
		return now.Add(rand.N(300*time.Millisecond) - 150*time.Millisecond)
	}
	panic("no clock is " + c.kind)
}

// Sleep does not wait for what it shows: nobody is held up by a wrong time.
func (childClock) Sleep(context.Context, time.Duration) error { return nil }

// A leaseProcess is a child as its parent sees it.
type leaseProcess struct {
	cmd *exec.Cmd
	out io.Reader

	mu    sync.Mutex
	fence int64
	ids   []pgid.ID
}

func startLeaseProcess(ctx context.Context, url string, window, pause time.Duration, clock string, ids int) (*leaseProcess, error) {
	p := &leaseProcess{cmd: exec.CommandContext(ctx, os.Args[0])}
	p.cmd.Env = append(os.Environ(), leaseURL+"="+url, leaseWindow+"="+window.String(), leasePause+"="+pause.String(),
		leaseClock+"="+clock, leaseIDs+"="+strconv.Itoa(ids))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = out
	return p, p.cmd.Start()
}

// read takes what the child tells until it ends; each, if given, is called after each ID.
func (p *leaseProcess) read(each func(n int)) error {
	for {
		var number int64
		err := binary.Read(p.out, binary.LittleEndian, &number)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return p.cmd.Wait()
		}
		if err != nil {
			return err
		}
		p.mu.Lock()
		if p.fence == 0 {
			p.fence = number
		} else {
			p.ids = append(p.ids, pgid.ID(number))
		}
		n := len(p.ids)
		p.mu.Unlock()
		if each != nil {
			each(n)
		}
	}
}

func (p *leaseProcess) drawn() []pgid.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ids)
}

// await waits until the child has told at least n IDs.
func (p *leaseProcess) await(t *testing.T, n int) {
	t.Helper()
	for range 3000 {
		if len(p.drawn()) >= n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%d IDs in 30 s, want %d", len(p.drawn()), n)
}
