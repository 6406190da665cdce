package faults

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/pgid"
)

// id is the ID of a tick of a shard.
func id(shard pgid.Shard, tick int64) pgid.ID { return pgid.Tick(tick).ID(shard) }

// entry is a run of shard 5 in a ledger under test, its times in nanoseconds.
type entry struct {
	client      int
	first, last int64
	start, end  int64
	kind        Kind
}

func ledgerOf(t *testing.T, entries []entry) *Ledger {
	t.Helper()
	l := NewLedger()
	books := map[int]*Book{}
	for _, e := range entries {
		if books[e.client] == nil {
			books[e.client] = l.Book(string(rune('a' + e.client)))
		}
		if err := books[e.client].enter(Run{id(5, e.first), id(5, e.last), e.start, e.end, e.kind}); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// Each broken promise is found, and nothing else.
func TestLedgerFinds(t *testing.T) {
	t.Parallel()
	type want struct{ ids, twice, again, disorder, late int }
	for _, c := range []struct {
		name    string
		entries []entry
		want    want
	}{
		{"nothing in nothing", nil, want{}},
		{"nothing in good order", []entry{{0, 1, 5, 1, 2, Strict}, {1, 6, 6, 1, 3, Strict}, {0, 7, 9, 4, 5, Strict}}, want{ids: 9}},
		{"nothing in calls that overlap", []entry{{0, 7, 9, 1, 9, Strict}, {1, 1, 6, 2, 3, Strict}}, want{ids: 9}},
		{"a duplicate of two clients", []entry{{0, 4, 4, 1, 2, Strict}, {1, 4, 4, 1, 2, Strict}}, want{ids: 2, twice: 1}},
		{"a duplicate later", []entry{{0, 4, 4, 1, 2, Strict}, {1, 4, 4, 3, 4, Strict}}, want{ids: 2, twice: 1, late: 1}},
		{"a duplicate of one client", []entry{{0, 4, 4, 1, 2, Strict}, {0, 4, 4, 3, 4, Strict}}, want{ids: 2, twice: 1, disorder: 1, late: 1}},
		{"one thrice", []entry{{0, 4, 4, 1, 2, Cached}, {1, 4, 4, 1, 2, Cached}, {2, 4, 4, 1, 2, Cached}}, want{ids: 3, twice: 1}},
		{"one within a range", []entry{{0, 1, 100, 1, 2, Cached}, {1, 50, 50, 1, 2, Cached}}, want{ids: 101, twice: 1}},
		{"ranges that overlap", []entry{{0, 1, 100, 1, 2, Cached}, {1, 91, 200, 1, 2, Cached}}, want{ids: 210, twice: 10}},
		{"a long range over two", []entry{{0, 1, 9000, 1, 2, Cached}, {1, 5, 9, 1, 2, Cached}, {2, 3000, 3009, 1, 2, Cached}}, want{ids: 9015, twice: 15}},
		{"a disorder of one client", []entry{{0, 9, 9, 1, 2, Cached}, {0, 8, 8, 3, 4, Cached}}, want{ids: 2, disorder: 1}},
		{"a late call", []entry{{0, 9, 9, 1, 2, Strict}, {1, 8, 8, 3, 4, Strict}}, want{ids: 2, late: 1}},
		{"no late call in cached IDs", []entry{{0, 9, 9, 1, 2, Strict}, {1, 8, 8, 3, 4, Cached}}, want{ids: 2}},
		{"a loose ID that comes again", []entry{{0, 4, 4, 1, 2, Loose}, {1, 4, 4, 3, 4, Strict}}, want{ids: 2, again: 1}},
		{"a kept ID that comes again, loose", []entry{{0, 4, 4, 1, 2, Strict}, {1, 4, 4, 3, 4, Loose}}, want{ids: 2, twice: 1}},
		{"no disorder after a loose ID", []entry{{0, 4, 4, 1, 2, Loose}, {0, 3, 3, 3, 4, Strict}}, want{ids: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := ledgerOf(t, c.entries).Check()
			if got := (want{r.IDs, r.Twice, r.Again, r.Disorder, r.LateOrder}); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			broken := c.want.twice+c.want.disorder+c.want.late > 0
			if (r.Broken() != "") != broken || broken && len(r.Examples) == 0 {
				t.Errorf("Broken() = %q", r.Broken())
			}
		})
	}
}

// Shards are apart: the same tick of another shard is another ID.
func TestLedgerShards(t *testing.T) {
	t.Parallel()
	l := NewLedger()
	b := l.Book("client")
	if err := b.Enter(Strict, l.Now(), id(5, 7), id(6, 7), id(6, 8), id(5, 8), id(5, 9)); err != nil {
		t.Fatal(err)
	}
	if r := l.Check(); r.Broken() != "" || r.IDs != 5 || r.Runs != 3 {
		t.Errorf("%+v", r)
	}
}

// A million IDs with one duplicate in them, of many clients.
func TestLedgerFindsOneInAMillion(t *testing.T) {
	t.Parallel()
	l := NewLedger()
	for client := range 10 {
		b := l.Book("client")
		for n := range int64(100_000) {
			tick := n*10 + int64(client)
			if n == 77_777 && client == 3 {
				tick++ // client 4's
			}
			b.runs = append(b.runs, Run{id(1, tick), id(1, tick), n, n, Cached})
		}
	}
	if r := l.Check(); r.Twice != 1 || r.Disorder+r.LateOrder != 0 || r.IDs != 1_000_000 {
		t.Errorf("%+v", r)
	}
}

func TestLedgerGap(t *testing.T) {
	t.Parallel()
	l := ledgerOf(t, []entry{{0, 1, 1, 0, 10, Strict}, {1, 2, 2, 0, 30, Strict}, {0, 3, 3, 0, 35, Strict}})
	other := l.Book("other")
	for _, r := range []Run{{id(6, 1), id(6, 1), 0, 20, Strict}, {id(6, 2), id(6, 2), 0, 34, Cached}} {
		if err := other.enter(r); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		from, to int64
		shards   []pgid.Shard
		want     time.Duration
	}{
		{10, 35, nil, 10},
		{10, 35, []pgid.Shard{5}, 20},
		{0, 35, []pgid.Shard{6}, 20},
		{0, 100, nil, 65},
		{11, 19, nil, 8},
	} {
		if got := l.Gap(c.from, c.to, c.shards...); got != c.want {
			t.Errorf("Gap(%d, %d, %v) = %d, want %d", c.from, c.to, c.shards, got, c.want)
		}
	}
	if first, last := l.Span(); first != 10 || last != 35 {
		t.Errorf("Span() = %d, %d", first, last)
	}
}

// What a child process tells arrives, also up to a torn end.
func TestLedgerPipe(t *testing.T) {
	t.Parallel()
	var pipe bytes.Buffer
	child := NewPipeLedger(&pipe)
	one, two := child.Client(1), child.Client(2)
	for tick := range int64(100) {
		if err := one.Enter(Strict, child.Now(), id(5, 2*tick)); err != nil {
			t.Fatal(err)
		}
		if err := two.Enter(Cached, child.Now(), id(5, 2*tick+1)); err != nil {
			t.Fatal(err)
		}
	}
	pipe.WriteString("torn")
	l := NewLedger()
	if err := l.Read("child", &pipe); err != nil {
		t.Fatal(err)
	}
	if r := l.Check(); r.IDs != 200 || r.Broken() != "" {
		t.Errorf("%+v", r)
	}
	if len(l.books) != 2 || !strings.HasPrefix(l.books[0].Name, "child/") || l.books[1].runs[3].Kind != Cached {
		t.Errorf("books: %+v", l.books)
	}
}
