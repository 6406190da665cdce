package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nextid/postgres-ids/pgid"
)

// A fleet is clients of one database that draw until they are stopped, whatever
// happens: who has lost the server connects again.
type fleet struct {
	book func(name string) *Book

	url    atomic.Pointer[string]
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu     sync.Mutex
	errors map[string]int // what calls ended with, by SQLSTATE
}

// newFleet is a fleet of nobody yet. Its clients' books are opened by book.
func newFleet(ctx context.Context, url string, book func(name string) *Book) *fleet {
	f := &fleet{book: book, errors: map[string]int{}}
	f.url.Store(&url)
	f.ctx, f.cancel = context.WithCancel(ctx)
	return f
}

// A client is one session's worth of a fleet.
type client struct {
	fleet *fleet
	conn  *pgx.Conn
	free  bool // it needs no conn
	book  *Book
	call  int // how many it made
}

// A step is one call of a client's: it draws from some source, and enters what it got in
// the client's book. Its errors are counted, and the client goes on; errDone ends it.
type step func(ctx context.Context, c *client) error

var errDone = errors.New("done")

// paced makes a client rest between its steps.
func paced(rest time.Duration, step step) step {
	return func(ctx context.Context, c *client) error {
		time.Sleep(rest)
		return step(ctx, c)
	}
}

// add starts a client with a session of its own, which makes its step again and again. It
// returns the client's book.
func (f *fleet) add(name string, step step) *Book {
	c := &client{fleet: f, book: f.book(name)}
	f.start(c, step)
	return c.book
}

// addFree starts a client whose step brings what it draws from: an allocator's.
func (f *fleet) addFree(name string, step step) {
	f.start(&client{fleet: f, book: f.book(name), free: true}, step)
}

func (f *fleet) start(c *client, step step) {
	f.group.Go(func() {
		for f.ctx.Err() == nil {
			err := c.once(step)
			if errors.Is(err, errDone) {
				break
			}
			if err != nil && f.ctx.Err() == nil {
				f.note(err)
				time.Sleep(time.Millisecond)
			}
		}
		c.close()
	})
}

func (c *client) once(step step) error {
	if c.conn == nil && !c.free {
		ctx, stop := context.WithTimeout(c.fleet.ctx, 5*time.Second)
		defer stop()
		conn, err := pgx.Connect(ctx, *c.fleet.url.Load())
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			return err
		}
		c.conn = conn
	}
	c.call++
	err := step(c.fleet.ctx, c)
	if c.conn != nil && c.conn.IsClosed() {
		c.conn = nil
	}
	return err
}

func (c *client) close() {
	if c.conn != nil {
		ctx, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		_ = c.conn.Close(ctx)
	}
}

// moved tells the clients where the server is now.
func (f *fleet) moved(url string) { f.url.Store(&url) }

// stop ends all clients, and waits for them.
func (f *fleet) stop() {
	f.cancel()
	f.group.Wait()
}

func (f *fleet) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errors[sqlstate(err)]++
}

// allow fails the test if a call ended with anything else than these.
func (f *fleet) allow(t testing.TB, states ...string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if testing.Verbose() {
		t.Logf("calls ended with %v", f.errors)
	}
	for _, s := range slices.Sorted(maps.Keys(f.errors)) {
		if !slices.Contains(states, s) {
			t.Errorf("%d calls ended with %s", f.errors[s], s)
		}
	}
}

// count is how many calls ended with a state.
func (f *fleet) count(state string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.errors[state]
}

// What sqlstate says of errors without a SQLSTATE.
const (
	lost    = "connection lost"
	expired = "context ended"
	stale   = "range too old"
)

// sqlstate is an error's SQLSTATE, lost, expired, stale, or its text.
func sqlstate(err error) string {
	var (
		pg      *pgconn.PgError
		netErr  net.Error
		connect *pgconn.ConnectError
	)
	switch {
	case err == nil:
		return ""
	case errors.Is(err, pgid.ErrStale):
		return stale
	case errors.As(err, &pg):
		return pg.Code
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return expired
	case errors.As(err, &netErr), errors.As(err, &connect), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, net.ErrClosed), strings.Contains(err.Error(), "conn closed"):
		return lost
	}
	return fmt.Sprintf("%q", err)
}
