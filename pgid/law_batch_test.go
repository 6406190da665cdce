package pgid_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/pgid"
)

// TestLawOfBatches: the last tick of a batch decides about it, at every limit.
func TestLawOfBatches(t *testing.T) {
	t.Parallel()
	const none, most = pgid.Tick(-1), 100 * 1024
	defaults := pgid.DefaultLimits() // lead 100 ms, wait 1000 ms
	tests := []struct {
		name   string
		limits pgid.Limits
		last   pgid.Tick
		now    int64
		n      int
		first  pgid.Tick
		wait   time.Duration
		err    error
	}{
		{"one", defaults, none, 5000, 1, tickOf(5000, 0), 0, nil},
		{"a millisecond's", defaults, none, 5000, 1024, tickOf(5000, 0), 0, nil},
		{"after the last tick", defaults, tickOf(5000, 7), 5000, 3000, tickOf(5000, 8), 0, nil},
		{"clock ahead", defaults, tickOf(4000, 7), 5000, 3000, tickOf(5000, 0), 0, nil},
		{"the zero limits are the default", pgid.Limits{}, none, 5000, most, tickOf(5000, 0), 0, nil},

		{"none", defaults, none, 5000, 0, 0, 0, pgid.ErrOutOfRange},
		{"negative", defaults, none, 5000, -1, 0, 0, pgid.ErrOutOfRange},
		{"least of all", defaults, none, 5000, math.MinInt, 0, 0, pgid.ErrOutOfRange},
		{"most", defaults, none, 5000, most, tickOf(5000, 0), 0, nil},
		{"most + 1", defaults, none, 5000, most + 1, 0, 0, pgid.ErrOutOfRange},
		{"most of all", defaults, none, 5000, math.MaxInt, 0, 0, pgid.ErrOutOfRange},
		{"most of the smallest lead", pgid.Limits{MaxLead: ms}, none, 5000, 1024, tickOf(5000, 0), 0, nil},
		{"most of the smallest lead + 1", pgid.Limits{MaxLead: ms}, none, 5000, 1025, 0, 0, pgid.ErrOutOfRange},
		{"out of range, and exhausted", defaults, pgid.MaxTick, 5000, 0, 0, 0, pgid.ErrOutOfRange},

		{"lead = max lead", defaults, tickOf(5099, 1023), 5000, 1024, tickOf(5100, 0), 0, nil},
		{"lead = max lead + 1, by one tick", defaults, tickOf(5099, 1023), 5000, 1025, tickOf(5100, 0), 1 * ms, nil},
		{"lead = max lead + max wait", defaults, tickOf(6099, 1023), 5000, 1024, tickOf(6100, 0), 1000 * ms, nil},
		{"lead = max lead + max wait + 1, by one tick", defaults, tickOf(6099, 1023), 5000, 1025, 0, 0, pgid.ErrClockBehind},
		{"clock behind the epoch", defaults, none, -50, 51*1024 + 1, 0, 1 * ms, nil},

		{"up to the last tick of all", defaults, none, maxMilli, 1024, tickOf(maxMilli, 0), 0, nil},
		{"past the last tick of all, from the clock", defaults, none, maxMilli, 1025, 0, 0, pgid.ErrTimeExhausted},
		{"up to the last tick of all, after the last", defaults, pgid.MaxTick - 10, maxMilli, 10, pgid.MaxTick - 9, 0, nil},
		{"past the last tick of all, after the last", defaults, pgid.MaxTick - 10, maxMilli, 11, 0, 0, pgid.ErrTimeExhausted},
		{"past the last tick of all, clock far behind", defaults, pgid.MaxTick - 10, 0, 11, 0, 0, pgid.ErrTimeExhausted},
		{"clock exhausted", defaults, none, maxMilli + 1, 2, 0, 0, pgid.ErrTimeExhausted},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			first, wait, err := test.limits.NextN(test.last, test.now, test.n)
			if first != test.first || wait != test.wait || !errors.Is(err, test.err) {
				t.Errorf("NextN(%d, %d, %d) = %d, %s, %v, want %d, %s, %v",
					test.last, test.now, test.n, first, wait, err, test.first, test.wait, test.err)
			}
		})
	}
}

func TestCountErrorNamesRange(t *testing.T) {
	t.Parallel()
	_, _, err := pgid.DefaultLimits().NextN(-1, 5000, 102401)
	if err == nil || !strings.Contains(err.Error(), "102401") || !strings.Contains(err.Error(), "1 to 102400") {
		t.Errorf("the text %q does not name the count and its range", err)
	}
}
