package faults

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"sync"

	"github.com/nextid/postgres-ids/pgid"
)

// A record is a run on its way from a child process to its parent's ledger.
type record struct {
	Client      int64
	First, Last pgid.ID
	Start, End  int64
	Kind        int64
}

// A PipeLedger is a child process's end of its parent's ledger. It keeps nothing: each
// run is in the pipe, whole, before the client goes on, so that a child that is killed
// has told all that its clients got, but for what they were just being given.
type PipeLedger struct {
	*Ledger
	mu  sync.Mutex
	out io.Writer
}

// NewPipeLedger writes to out, which is read by [Ledger.Read].
func NewPipeLedger(out io.Writer) *PipeLedger { return &PipeLedger{Ledger: NewLedger(), out: out} }

// Client is a book for one client of this process.
func (p *PipeLedger) Client(client int) *Book {
	return &Book{Name: strconv.Itoa(client), now: p.Now, sink: func(r Run) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		return binary.Write(p.out, binary.LittleEndian, record{int64(client), r.First, r.Last, r.Start, r.End, int64(r.Kind)})
	}}
}

// Read enters what a child process tells, until it ends.
func (l *Ledger) Read(name string, in io.Reader) error {
	in = bufio.NewReaderSize(in, 1<<16)
	books := map[int64]*Book{}
	for {
		var r record
		err := binary.Read(in, binary.LittleEndian, &r)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		b := books[r.Client]
		if b == nil {
			b = l.Book(name + "/" + strconv.FormatInt(r.Client, 10))
			books[r.Client] = b
		}
		if err := b.enter(Run{r.First, r.Last, r.Start, r.End, Kind(r.Kind)}); err != nil {
			return err
		}
	}
}
