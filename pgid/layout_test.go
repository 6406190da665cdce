package pgid_test

import (
	"cmp"
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nextid/postgres-ids/pgid"
)

// The ranges of the contract, written out here rather than taken from the package.
const (
	minMilli = -1 << 40
	maxMilli = 1<<40 - 1
	maxShard = 8191
	maxSeq   = 1023
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at is the time ms milliseconds after the default epoch. A Duration would overflow
// beyond 292 years, but an ID holds 35.
func at(ms int64) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

// edgy draws from a range, its ends more often than the rest.
func edgy(low, high int64) *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.Int64Range(low, high),
		rapid.SampledFrom([]int64{low, low + 1, (low + high) / 2, high - 1, high}),
	)
}

// parts are the fields of an ID as plain numbers.
type parts struct{ ms, shard, seq int64 }

var genParts = rapid.Custom(func(t *rapid.T) parts {
	ms := rapid.OneOf(edgy(minMilli, maxMilli), edgy(-2, 2)).Draw(t, "ms")
	return parts{ms: ms, shard: edgy(0, maxShard).Draw(t, "shard"), seq: edgy(0, maxSeq).Draw(t, "seq")}
})

func (p parts) encode(t interface{ Fatal(...any) }) pgid.ID {
	id, err := pgid.Layout{}.Encode(at(p.ms), pgid.Shard(p.shard), pgid.Seq(p.seq))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func compareParts(a, b parts) int {
	return cmp.Or(cmp.Compare(a.ms, b.ms), cmp.Compare(a.shard, b.shard), cmp.Compare(a.seq, b.seq))
}

// TestConstants holds the exported numbers to the contract.
func TestConstants(t *testing.T) {
	t.Parallel()
	if pgid.TimeBits != 41 || pgid.ShardBits != 13 || pgid.SeqBits != 10 {
		t.Errorf("bits %d + %d + %d, want 41 + 13 + 10", pgid.TimeBits, pgid.ShardBits, pgid.SeqBits)
	}
	if pgid.MaxShard != maxShard || pgid.MaxSeq != maxSeq || pgid.MaxTick != 1<<50-1 {
		t.Errorf("MaxShard %d, MaxSeq %d, MaxTick %d", pgid.MaxShard, pgid.MaxSeq, pgid.MaxTick)
	}
	if got := (pgid.Layout{}).Epoch(); !got.Equal(epoch) || got.Location() != time.UTC {
		t.Errorf("the zero Layout has the epoch %s, want %s", got, epoch)
	}
}

func TestEncodeDecode(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := genParts.Draw(t, "parts")
		// Any time within the millisecond makes the same ID.
		within := time.Duration(edgy(0, 999_999).Draw(t, "ns"))
		id, err := pgid.Layout{}.Encode(at(p.ms).Add(within), pgid.Shard(p.shard), pgid.Seq(p.seq))
		if err != nil {
			t.Fatal(err)
		}
		got := pgid.Layout{}.Decode(id)
		if want := (pgid.Parts{Time: at(p.ms), Shard: pgid.Shard(p.shard), Seq: pgid.Seq(p.seq)}); got != want {
			t.Fatalf("%+v: decoded %v, want %v", p, got, want)
		}
	})
}

// TestDecodeEncode: every int64 is an ID, and comes back from its parts.
func TestDecodeEncode(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := pgid.ID(edgy(math.MinInt64, math.MaxInt64).Draw(t, "id"))
		got := pgid.Layout{}.Decode(id)
		if got.Shard < 0 || got.Shard > maxShard || got.Seq < 0 || got.Seq > maxSeq {
			t.Fatalf("Decode(%d) = %v: out of range", id, got)
		}
		if back, err := (pgid.Layout{}).Encode(got.Time, got.Shard, got.Seq); err != nil || back != id {
			t.Fatalf("%d decodes to %v, which encodes to %d, %v", id, got, back, err)
		}
	})
}

// TestOrder: IDs sort by time, then shard, then seq; and a change of one field
// changes that field alone.
func TestOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := genParts.Draw(t, "a"), genParts.Draw(t, "b")
		// Unrelated draws hardly ever share a field.
		if rapid.Bool().Draw(t, "same ms") {
			b.ms = a.ms
		}
		if rapid.Bool().Draw(t, "same shard") {
			b.shard = a.shard
		}
		if got, want := cmp.Compare(a.encode(t), b.encode(t)), compareParts(a, b); got != want {
			t.Fatalf("%+v and %+v: IDs compare %d, parts %d", a, b, got, want)
		}
	})
}

// TestFieldsDoNotOverlap takes every pair of edges, where a field would spill over.
func TestFieldsDoNotOverlap(t *testing.T) {
	t.Parallel()
	seen := make(map[pgid.ID]parts)
	for _, ms := range []int64{minMilli, minMilli + 1, -1, 0, 1, 1 << 39, maxMilli - 1, maxMilli} {
		for _, shard := range []int64{0, 1, 1023, 1024, 4095, 4096, 8190, maxShard} {
			for _, seq := range []int64{0, 1, 511, 512, 1022, maxSeq} {
				p := parts{ms, shard, seq}
				id := p.encode(t)
				if other, ok := seen[id]; ok {
					t.Errorf("%+v and %+v have the same ID %d", p, other, id)
				}
				seen[id] = p
				if id.Shard() != pgid.Shard(shard) || id.Seq() != pgid.Seq(seq) || !id.Time().Equal(at(ms)) {
					t.Errorf("%+v reads back as %v", p, pgid.Layout{}.Decode(id))
				}
			}
		}
	}
}

func TestMinMax(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := genParts.Draw(t, "parts")
		low, errLow := pgid.Layout{}.Min(at(p.ms).Add(999 * time.Microsecond))
		high, errHigh := pgid.Layout{}.Max(at(p.ms))
		if errLow != nil || errHigh != nil {
			t.Fatal(errLow, errHigh)
		}
		if id := p.encode(t); id < low || id > high {
			t.Fatalf("%+v: ID %d outside %d .. %d", p, id, low, high)
		}
		if high-low != 1<<23-1 {
			t.Fatalf("%d .. %d is not one millisecond of all shards", low, high)
		}
		if p.ms == maxMilli {
			return
		}
		if next, err := (pgid.Layout{}).Min(at(p.ms + 1)); err != nil || next != high+1 {
			t.Fatalf("Max of ms %d is %d, Min of the next %d, %v", p.ms, high, next, err)
		}
	})
}

func TestTick(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := genParts.Draw(t, "parts")
		id := p.encode(t)
		tick := id.Tick()
		if want := pgid.Tick(p.ms*1024 + p.seq); tick != want {
			t.Fatalf("%+v: tick %d, want %d", p, tick, want)
		}
		if back := tick.ID(pgid.Shard(p.shard)); back != id {
			t.Fatalf("%+v: tick %d gives ID %d, want %d", p, tick, back, id)
		}
		// Ticks of one shard sort as its IDs do.
		if tick < pgid.MaxTick && (tick+1).ID(pgid.Shard(p.shard)) <= id {
			t.Fatalf("%+v: the ID of the next tick is not larger", p)
		}
	})
}

func TestNewLayout(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		epoch time.Time
		ok    bool
	}{
		{"default", epoch, true},
		{"first", time.Unix(0, 0), true},
		{"last", time.Date(2070, 12, 31, 23, 59, 59, 999_000_000, time.UTC), true},
		{"Instagram's", time.UnixMilli(1314220021721), true},
		{"too early", time.Unix(0, -1_000_000), false},
		{"too late", time.Date(2071, 1, 1, 0, 0, 0, 0, time.UTC), false},
		{"a year in UTC, not in its zone", time.Date(1969, 12, 31, 23, 0, 0, 0, time.FixedZone("west", -3600)), true},
		{"a year in its zone, not in UTC", time.Date(1970, 1, 1, 0, 0, 0, 0, time.FixedZone("east", 3600)), false},
		{"not a whole millisecond", epoch.Add(time.Nanosecond), false},
		{"not a whole millisecond, by microseconds", epoch.Add(999 * time.Microsecond), false},
		{"zero time", time.Time{}, false},
		{"far future", time.Unix(1<<62, 0), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			layout, err := pgid.NewLayout(test.epoch)
			if !test.ok {
				if !errors.Is(err, pgid.ErrTimeRange) {
					t.Errorf("error %v, want ErrTimeRange", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := layout.Epoch(); !got.Equal(test.epoch) || got.Location() != time.UTC {
				t.Errorf("Epoch = %s, want %s", got, test.epoch.UTC())
			}
			if id, err := layout.Encode(test.epoch, 5, 7); err != nil || id != 5<<10|7 {
				t.Errorf("the epoch itself encodes to %d, %v, want %d", id, err, 5<<10|7)
			}
			if got := layout.Time(1 << 23); !got.Equal(test.epoch.Add(time.Millisecond)) {
				t.Errorf("one millisecond on reads as %s", got)
			}
		})
	}
	if layout, err := pgid.NewLayout(epoch); err != nil || layout != (pgid.Layout{}) {
		t.Errorf("NewLayout of the default epoch = %v, %v, want the zero Layout", layout, err)
	}
}

// TestCustomEpoch: under any epoch an ID is the default's, shifted.
func TestCustomEpoch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		unix := rapid.Int64Range(0, 3187295999999).Draw(t, "epoch in Unix ms") // to the end of 2070
		layout, err := pgid.NewLayout(time.UnixMilli(unix))
		if err != nil {
			t.Fatal(err)
		}
		p := genParts.Draw(t, "parts")
		want := p.encode(t)
		// Floored before 1970 too, where a division would round up.
		within := time.Duration(edgy(0, 999_999).Draw(t, "ns"))
		id, err := layout.Encode(time.UnixMilli(unix+p.ms).Add(within), pgid.Shard(p.shard), pgid.Seq(p.seq))
		if err != nil || id != want {
			t.Fatalf("got %d, %v, want %d", id, err, want)
		}
		if got := layout.Time(id); got.UnixMilli() != unix+p.ms {
			t.Fatalf("Time = %s, want Unix ms %d", got, unix+p.ms)
		}
		for _, outside := range []int64{minMilli - 1, maxMilli + 1} {
			if _, err := layout.Encode(time.UnixMilli(unix+outside), 0, 0); !errors.Is(err, pgid.ErrTimeRange) {
				t.Fatalf("ms %d: error %v, want ErrTimeRange", outside, err)
			}
		}
	})
}

// TestFarAwayTimes: times whose milliseconds, or seconds, do not fit 64 bits must
// not wrap around into the range.
func TestFarAwayTimes(t *testing.T) {
	t.Parallel()
	layout, err := pgid.NewLayout(time.Date(2070, 1, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]time.Time{
		"zero":                              {},
		"year 1":                            time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC),
		"year 9999":                         time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
		"1<<62 s":                           time.Unix(1<<62, 0),
		"-1<<62 s":                          time.Unix(-1<<62, 0),
		"most seconds":                      time.Unix(math.MaxInt64, 0),
		"least seconds":                     time.Unix(math.MinInt64, 0),
		"most milliseconds":                 time.UnixMilli(math.MaxInt64),
		"least milliseconds":                time.UnixMilli(math.MinInt64),
		"wraps to the epoch in nanoseconds": epoch.Add(1 << 62).Add(1 << 62).Add(1 << 62).Add(1 << 62),
		// 2^64 ms in seconds: one round of the milliseconds later it is the epoch again.
		"wraps to the epoch": time.Unix(epoch.Unix()+1<<64/1000, 0),
	}
	for name, far := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, layout := range []pgid.Layout{{}, layout} {
				if id, err := layout.Encode(far, 0, 0); !errors.Is(err, pgid.ErrTimeRange) {
					t.Errorf("Encode = %d, %v, want ErrTimeRange", id, err)
				}
				if id, err := layout.Min(far); !errors.Is(err, pgid.ErrTimeRange) {
					t.Errorf("Min = %d, %v, want ErrTimeRange", id, err)
				}
				if id, err := layout.Max(far); !errors.Is(err, pgid.ErrTimeRange) {
					t.Errorf("Max = %d, %v, want ErrTimeRange", id, err)
				}
			}
		})
	}
}
