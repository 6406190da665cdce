package pgid_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"github.com/nextid/postgres-ids/pgid"
)

// TestRange: a range steps by ticks, so from seq 1023 to seq 0 of the next millisecond.
func TestRange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		shard := pgid.Shard(edgy(0, maxShard).Draw(t, "shard"))
		milli := rapid.OneOf(edgy(0, maxMilli-10), edgy(-5, 5)).Draw(t, "ms")
		first := tickOf(milli, edgy(0, maxSeq).Draw(t, "seq"))
		n := int(edgy(1, 3000).Draw(t, "n"))
		r := pgid.Range{First: first.ID(shard), Last: (first + pgid.Tick(n) - 1).ID(shard)}
		if r.Len() != n {
			t.Fatalf("Len of %v = %d, want %d", r, r.Len(), n)
		}
		ids := slices.Collect(r.All())
		if len(ids) != n || ids[0] != r.First || ids[n-1] != r.Last {
			t.Fatalf("%v yields %d IDs, want %d", r, len(ids), n)
		}
		for i, id := range ids {
			p := parts{ms: int64(first+pgid.Tick(i)) >> 10, shard: int64(shard), seq: int64(first+pgid.Tick(i)) & 1023}
			if want := p.encode(t); id != want {
				t.Fatalf("ID %d of %v is %d, want %d", i, r, id, want)
			}
		}
		if n > 1 {
			for id := range r.All() { // a loop may break off
				if id != r.First {
					t.Fatalf("the first ID of %v is %d", r, id)
				}
				break
			}
		}
	})
	if r := (pgid.Range{First: 1 << 23, Last: 5}); r.Len() != 0 || len(slices.Collect(r.All())) != 0 {
		t.Errorf("a range that ends before it starts has %d IDs", r.Len())
	}
}

func TestClientReserve(t *testing.T) {
	t.Parallel()
	db := newRangeDB()
	client := pgid.NewClient(db)
	for _, n := range []int{1, 2, 1024, 5000, 102400} {
		r, err := client.Reserve(t.Context(), testShard, n)
		if err != nil || r.Len() != n || r.First.Shard() != testShard || r.Last.Shard() != testShard {
			t.Errorf("Reserve(%d) = %v, %v", n, r, err)
		}
		ids, err := client.NextIDs(t.Context(), testShard, n)
		if err != nil || len(ids) != n || ids[0] <= r.Last || !slices.IsSorted(ids) {
			t.Errorf("NextIDs(%d) = %d IDs after %v, %v", n, len(ids), r, err)
		}
	}
	if want := []int{1, 1, 2, 2, 1024, 1024, 5000, 5000, 102400, 102400}; !slices.Equal(db.counts(), want) {
		t.Errorf("asked for %v, want %v", db.counts(), want)
	}
}

// TestClientReserveAsks: what can never be right is refused without asking; the rest
// is the database's to judge, whatever its limits were when they were read.
func TestClientReserveAsks(t *testing.T) {
	t.Parallel()
	db := newRangeDB()
	client := pgid.NewClient(db)
	for _, n := range []int{0, -1, math.MinInt, math.MaxInt32 + 1} {
		if _, err := client.Reserve(t.Context(), 5, n); !errors.Is(err, pgid.ErrOutOfRange) {
			t.Errorf("Reserve(%d): %v, want ErrOutOfRange", n, err)
		}
		if ids, err := client.NextIDs(t.Context(), 5, n); ids != nil || !errors.Is(err, pgid.ErrOutOfRange) {
			t.Errorf("NextIDs(%d): %d IDs, %v, want ErrOutOfRange", n, len(ids), err)
		}
	}
	for _, shard := range []pgid.Shard{-1, maxShard + 1} {
		if _, err := client.Reserve(t.Context(), shard, 1); !errors.Is(err, pgid.ErrOutOfRange) {
			t.Errorf("shard %d: %v, want ErrOutOfRange", shard, err)
		}
	}
	if len(db.counts()) != 0 {
		t.Errorf("asked for %v", db.counts())
	}
	const more = 102401
	if _, err := client.Reserve(t.Context(), 5, more); !errors.Is(err, pgid.ErrOutOfRange) {
		t.Errorf("Reserve(%d): %v, want ErrOutOfRange", more, err)
	}
	db.set(func() { db.limits.MaxLead *= 2 })
	if _, err := client.Reserve(t.Context(), 5, more); err != nil {
		t.Errorf("Reserve(%d), once the limits allow it: %v", more, err)
	}
}

func TestClientReserveErrors(t *testing.T) {
	t.Parallel()
	for code, sentinel := range sentinels {
		db := newRangeDB()
		pg := &pgconn.PgError{Code: code}
		db.fail = func() error { return pg }
		var got *pgconn.PgError
		r, err := pgid.NewClient(db).Reserve(t.Context(), 5, 10)
		if r != (pgid.Range{}) || !errors.Is(err, sentinel) || !errors.As(err, &got) || got != pg {
			t.Errorf("%s: Reserve = %v, %v", code, r, err)
		}
		if ids, err := pgid.NewClient(db).NextIDs(t.Context(), 5, 10); ids != nil || !errors.Is(err, sentinel) {
			t.Errorf("%s: NextIDs = %v, %v", code, ids, err)
		}
	}
	db := newRangeDB()
	db.answer = func(r *pgid.Range) { r.Last++ }
	if ids, err := pgid.NewClient(db).NextIDs(t.Context(), 5, 10); ids != nil || !errors.Is(err, pgid.ErrBadAnswer) {
		t.Errorf("NextIDs = %v, %v, want ErrBadAnswer", ids, err)
	}
}

// TestClientReserveOldSchema: version 1 has no ranges; once it is migrated, the same
// client has them.
func TestClientReserveOldSchema(t *testing.T) {
	t.Parallel()
	db := newRangeDB()
	db.version = 1
	client := pgid.NewClient(db)
	a := newAllocator(t, db, pgid.AllocatorConfig{})
	_, errReserve := client.Reserve(t.Context(), 5, 10)
	_, errNextIDs := client.NextIDs(t.Context(), 5, 10)
	_, errNext := a.Next(t.Context())
	for _, err := range []error{errReserve, errNextIDs, errNext} {
		if !errors.Is(err, pgid.ErrNotInstalled) || !strings.Contains(err.Error(), "version 1") ||
			!strings.Contains(err.Error(), "pgid migrate up") {
			t.Errorf("%v, want ErrNotInstalled with the version and what to do", err)
		}
	}
	if len(db.counts()) != 0 {
		t.Errorf("asked for %v", db.counts())
	}
	db.set(func() { db.version = 2 })
	if _, err := client.Reserve(t.Context(), 5, 10); err != nil {
		t.Errorf("after the migration: %v", err)
	}
	take(t, a, 1)
}
