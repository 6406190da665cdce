package pgid

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever the clock shows and whichever windows are granted, a tick is of one of
// them, larger than all before it, and the one that the law asks for.
func TestLeaseWindowsProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var (
			ws      leaseWindows
			granted []leaseWindow // all of them
			until   Tick
			last    = noTick
			limits  = Limits{MaxLead: time.Duration(rapid.IntRange(1, 50).Draw(t, "max lead")) * time.Millisecond,
				MaxWait: time.Duration(rapid.IntRange(0, 50).Draw(t, "max wait")) * time.Millisecond}
			law = limits.law()
		)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "step") == 0 {
				from := until + rapid.SampledFrom([]Tick{0, 0, 1, 1023, 5000, 1 << 20}).Draw(t, "gap")
				until = from + Tick(rapid.SampledFrom([]int64{0, 1, 2, 1024, 20 << 10}).Draw(t, "size"))
				before, kept := ws, slices.Clone(ws)
				ws = ws.add(leaseWindow{from, until}, last)
				if !slices.Equal(before, kept) {
					t.Fatalf("add changed what it was called on: %v was %v", before, kept)
				}
				granted = append(granted, leaseWindow{from, until})
				continue
			}
			now := rapid.OneOf(
				rapid.Int64Range(last.milli()-60, last.milli()+60),
				rapid.Int64Range(until.milli()-60, until.milli()+60),
				rapid.SampledFrom([]int64{-1 << 63, -1 << 40, -1, 0, 1<<40 - 1, 1 << 40, 1<<63 - 1}),
			).Draw(t, "now")
			checkLeaseNext(t, ws, granted, law, last, now)
			if tick, _, err := ws.next(law, last, now); err == nil {
				last = tick
			}
		}
	})
}

func checkLeaseNext(t *rapid.T, ws leaseWindows, granted []leaseWindow, law law, last Tick, now int64) {
	tick, wait, err := ws.next(law, last, now)
	want, ok := smallestTick(granted, last, now)
	switch {
	case err == nil && (!ok || tick != want):
		t.Fatalf("tick %d after %d at %d ms of %v, want %d (%t)", tick, last, now, granted, want, ok)
	case err == nil:
		lead := tick.milli() - max(now, -1<<50)
		if wantWait := time.Duration(max(0, lead-law.maxLead)) * time.Millisecond; wait != wantWait || lead > law.maxLead+law.maxWait {
			t.Fatalf("tick %d at %d ms, lead %d: waits %s, want %s", tick, now, lead, wait, wantWait)
		}
	case errors.Is(err, ErrLeaseExpired):
		if ok && now <= maxMilli && len(granted) <= mostWindows {
			t.Fatalf("expired after %d at %d ms, and %d is left of %v", last, now, want, granted)
		}
	case errors.Is(err, ErrClockBehind):
		if lead := want.milli() - max(now, -1<<50); !ok || lead <= law.maxLead+law.maxWait {
			t.Fatalf("refused %d at %d ms: %v", want, now, err)
		}
	case errors.Is(err, ErrTimeExhausted):
		if now <= maxMilli {
			t.Fatalf("exhausted at %d ms", now)
		}
	default:
		t.Fatal(err)
	}
}

// smallestTick is what the law asks for, of the windows, found tediously.
func smallestTick(granted []leaseWindow, last Tick, now int64) (Tick, bool) {
	least := last + 1
	if now > maxMilli {
		return 0, false
	}
	if now > 0 {
		least = max(least, Tick(now*1024))
	}
	for _, w := range granted {
		if tick := max(least, w.from); tick < w.until {
			return tick, true
		}
	}
	return 0, false
}

func TestLeaseWindowsAdd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		ws   leaseWindows
		add  leaseWindow
		last Tick
		want leaseWindows
	}{
		{"the first", nil, leaseWindow{5, 9}, -1, leaseWindows{{5, 9}}},
		{"without a gap", leaseWindows{{5, 9}}, leaseWindow{9, 12}, -1, leaseWindows{{5, 12}}},
		{"with a gap", leaseWindows{{5, 9}}, leaseWindow{10, 12}, -1, leaseWindows{{5, 9}, {10, 12}}},
		{"empty", leaseWindows{{5, 9}}, leaseWindow{9, 9}, -1, leaseWindows{{5, 9}}},
		{"used up", leaseWindows{{5, 9}, {10, 12}}, leaseWindow{12, 14}, 8, leaseWindows{{10, 14}}},
		{"one left", leaseWindows{{5, 9}}, leaseWindow{11, 14}, 7, leaseWindows{{5, 9}, {11, 14}}},
		{"used up, without a gap", leaseWindows{{5, 9}}, leaseWindow{9, 14}, 8, leaseWindows{{9, 14}}},
	} {
		if got := c.ws.add(c.add, c.last); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	var ws leaseWindows
	for i := range Tick(100) {
		ws = ws.add(leaseWindow{10 * i, 10*i + 5}, -1)
	}
	if len(ws) != mostWindows || ws[mostWindows-1] != (leaseWindow{990, 995}) {
		t.Errorf("%d windows, the last %v", len(ws), ws[len(ws)-1])
	}
}
