// Package faults is the proof that IDs never repeat under faults: killed servers and
// clients, cancelled calls, clocks that step, sequences altered behind pgid's back.
//
// What its tests share is a [Ledger] of every ID that was ever returned to a client.
package faults

import (
	"fmt"
	"sync"
	"time"

	"github.com/nextid/postgres-ids/pgid"
)

// A Ledger collects every ID that was returned to any client, and finds out at the
// end whether the promises were kept: see [Ledger.Check]. Runs of consecutive ticks
// are kept as one entry of 40 bytes, so that it holds tens of millions.
type Ledger struct {
	begin time.Time // what all times here are counted from; with its monotonic reading

	mu    sync.Mutex
	books []*Book
}

// NewLedger is an empty ledger.
func NewLedger() *Ledger { return &Ledger{begin: time.Now()} }

// Now is the client's clock, in nanoseconds of Unix time. It never goes back while
// the process lives, and agrees between the processes of one machine to the precision
// of its clock, if nobody steps that.
func (l *Ledger) Now() int64 { return l.begin.UnixNano() + int64(time.Since(l.begin)) }

// A Kind says what a client's IDs promise.
type Kind uint8

const (
	// Strict IDs strictly increase in real time over all clients of the shard (G2).
	Strict Kind = iota
	// Cached IDs come from a window that was reserved ahead, by an Allocator or a
	// lease: unique, and ascending for each client, in no order between clients.
	Cached
	// Loose IDs left a transaction that was not, or may not have been, committed: after a
	// crash of the server they are protected by its clock alone.
	Loose
)

// A Run is what one call returned: IDs of one shard with consecutive ticks. A call
// that got several runs has as many entries.
type Run struct {
	First, Last pgid.ID
	Start, End  int64 // of the call, by Ledger.Now
	Kind        Kind
}

func (r Run) shard() pgid.Shard { return r.First.Shard() }

// Len is the number of IDs in the run.
func (r Run) Len() int { return int(r.Last.Tick()-r.First.Tick()) + 1 }

// A Book has the IDs of one client, in the order in which it got them. One goroutine
// writes to it.
type Book struct {
	Name string

	now  func() int64
	mu   sync.Mutex // guards runs against who looks in before the end
	runs []Run
	sink func(Run) error // of a child process: where the runs go instead
}

// Book opens a book for one client, which its name tells from others.
func (l *Ledger) Book(name string) *Book {
	b := &Book{Name: name, now: l.Now}
	l.mu.Lock()
	l.books = append(l.books, b)
	l.mu.Unlock()
	return b
}

// Draw calls draw, and enters what it returned. IDs that came with an error reached
// somebody too: they are Loose.
func (b *Book) Draw(kind Kind, draw func() ([]pgid.ID, error)) error {
	start := b.now()
	ids, err := draw()
	if err != nil {
		kind = Loose
	}
	if enterErr := b.Enter(kind, start, ids...); enterErr != nil {
		return enterErr
	}
	return err
}

// DrawRange is Draw for a range, which nobody has if there is an error.
func (b *Book) DrawRange(kind Kind, draw func() (pgid.Range, error)) error {
	start := b.now()
	r, err := draw()
	if err != nil {
		return err
	}
	return b.enter(Run{r.First, r.Last, start, b.now(), kind})
}

// Enter enters the IDs of a call that began at start and returns now.
func (b *Book) Enter(kind Kind, start int64, ids ...pgid.ID) error {
	end := b.now()
	for i := 0; i < len(ids); {
		run := Run{ids[i], ids[i], start, end, kind}
		for i++; i < len(ids) && ids[i].Shard() == run.shard() && ids[i].Tick() == run.Last.Tick()+1; i++ {
			run.Last = ids[i]
		}
		if err := b.enter(run); err != nil {
			return err
		}
	}
	return nil
}

func (b *Book) enter(r Run) error {
	if r.Last.Shard() != r.shard() || r.Last < r.First {
		return fmt.Errorf("faults: a run from %d to %d", r.First, r.Last)
	}
	if b.sink != nil {
		return b.sink(r)
	}
	b.mu.Lock()
	b.runs = append(b.runs, r)
	b.mu.Unlock()
	return nil
}

// Runs are the book's entries so far.
func (b *Book) Runs() []Run {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.runs
}

// all are the books so far.
func (l *Ledger) all() []*Book {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.books
}
