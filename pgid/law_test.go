package pgid_test

import (
	"errors"
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nextid/postgres-ids/pgid"
)

const ms = time.Millisecond

// tickOf is the tick of a millisecond and a sequence.
func tickOf(milli, seq int64) pgid.Tick { return pgid.Tick(milli*1024 + seq) }

func TestLaw(t *testing.T) {
	t.Parallel()
	const none = pgid.Tick(-1)
	defaults := pgid.DefaultLimits() // lead 100 ms, wait 1000 ms
	tests := []struct {
		name   string
		limits pgid.Limits
		last   pgid.Tick
		now    int64
		tick   pgid.Tick
		wait   time.Duration
		err    error
	}{
		{"first tick", defaults, none, 5000, tickOf(5000, 0), 0, nil},
		{"first tick at the epoch", defaults, none, 0, 0, 0, nil},
		{"clock ahead", defaults, tickOf(4000, 17), 5000, tickOf(5000, 0), 0, nil},
		{"clock one ms ahead", defaults, tickOf(4999, 1023), 5000, tickOf(5000, 0), 0, nil},
		{"same ms", defaults, tickOf(5000, 0), 5000, tickOf(5000, 1), 0, nil},
		{"last of the ms", defaults, tickOf(5000, 1022), 5000, tickOf(5000, 1023), 0, nil},
		{"overflow into the next ms", defaults, tickOf(5000, 1023), 5000, tickOf(5001, 0), 0, nil},
		{"clock back a little", defaults, tickOf(5000, 3), 4999, tickOf(5000, 4), 0, nil},

		{"lead = max lead", defaults, tickOf(5100, 3), 5000, tickOf(5100, 4), 0, nil},
		{"lead = max lead, end of its ms", defaults, tickOf(5100, 1022), 5000, tickOf(5100, 1023), 0, nil},
		{"lead = max lead + 1", defaults, tickOf(5100, 1023), 5000, tickOf(5101, 0), 1 * ms, nil},
		{"lead = max lead + max wait", defaults, tickOf(6100, 0), 5000, tickOf(6100, 1), 1000 * ms, nil},
		{"lead = max lead + max wait + 1", defaults, tickOf(6100, 1023), 5000, 0, 0, pgid.ErrClockBehind},
		{"clock back an hour", defaults, tickOf(3600_000, 0), 0, 0, 0, pgid.ErrClockBehind},

		{"smallest lead", pgid.Limits{MaxLead: ms}, tickOf(5001, 0), 5000, tickOf(5001, 1), 0, nil},
		{"smallest lead, no wait", pgid.Limits{MaxLead: ms}, tickOf(5001, 1023), 5000, 0, 0, pgid.ErrClockBehind},
		{"smallest lead and wait", pgid.Limits{MaxLead: ms, MaxWait: ms}, tickOf(5001, 1023), 5000, tickOf(5002, 0), ms, nil},

		{"clock before the epoch, new shard", defaults, none, -100, 0, 0, nil},
		{"clock before the epoch, wait", defaults, none, -101, 0, 1 * ms, nil},
		{"clock before the epoch, most wait", defaults, none, -1100, 0, 1000 * ms, nil},
		{"clock before the epoch, refused", defaults, none, -1101, 0, 0, pgid.ErrClockBehind},
		{"clock at the first ms", defaults, none, minMilli, 0, 0, pgid.ErrClockBehind},
		{"clock before the first ms", defaults, none, minMilli - 1, 0, 0, pgid.ErrClockBehind},
		{"clock at -2^62 ms", defaults, none, -1 << 62, 0, 0, pgid.ErrClockBehind},
		{"clock where the shift would wrap", defaults, none, -1<<54 + 1<<41, 0, 0, pgid.ErrClockBehind},

		{"clock at the last ms", defaults, none, maxMilli, tickOf(maxMilli, 0), 0, nil},
		{"last tick of all", defaults, pgid.MaxTick - 1, maxMilli, pgid.MaxTick, 0, nil},
		{"last tick of all, early", defaults, pgid.MaxTick - 1, maxMilli - 100, pgid.MaxTick, 0, nil},
		{"tick exhausted", defaults, pgid.MaxTick, maxMilli, 0, 0, pgid.ErrTimeExhausted},
		{"tick exhausted, clock early", defaults, pgid.MaxTick, maxMilli - 50, 0, 0, pgid.ErrTimeExhausted},
		{"tick exhausted, clock far behind", defaults, pgid.MaxTick, 0, 0, 0, pgid.ErrTimeExhausted},
		{"clock exhausted", defaults, none, maxMilli + 1, 0, 0, pgid.ErrTimeExhausted},
		{"clock exhausted, where the shift would overflow", defaults, none, 1 << 54, 0, 0, pgid.ErrTimeExhausted},
		{"clock exhausted, ticks left", defaults, tickOf(5, 0), maxMilli + 1, 0, 0, pgid.ErrTimeExhausted},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tick, wait, err := test.limits.Next(test.last, test.now)
			if tick != test.tick || wait != test.wait || !errors.Is(err, test.err) {
				t.Errorf("Next(%d, %d) = %d, %s, %v, want %d, %s, %v",
					test.last, test.now, tick, wait, err, test.tick, test.wait, test.err)
			}
		})
	}
}

// lawModel is the law as the contract words it, for a batch of n, in integers without
// bounds. Returned are the first tick, nil if it is refused, the milliseconds to wait
// and the error.
func lawModel(maxLead, maxWait, last, now, n int64) (tick *big.Int, wait int64, err error) {
	end := new(big.Int).Lsh(big.NewInt(1), 40) // milliseconds
	tick = new(big.Int).Add(big.NewInt(last), big.NewInt(1))
	if nowTick := new(big.Int).Mul(big.NewInt(now), big.NewInt(1024)); nowTick.Cmp(tick) > 0 {
		tick = nowTick
	}
	final := new(big.Int).Add(tick, big.NewInt(n-1))
	milli := new(big.Int).Div(final, big.NewInt(1024)) // Euclidean: floored
	lead := new(big.Int).Sub(milli, big.NewInt(now))
	switch {
	case n < 1 || n > 1024*maxLead:
		return nil, 0, pgid.ErrOutOfRange
	case big.NewInt(now).Cmp(end) >= 0, milli.Cmp(end) >= 0:
		return nil, 0, pgid.ErrTimeExhausted
	case lead.Cmp(big.NewInt(maxLead)) <= 0:
		return tick, 0, nil
	case lead.Cmp(big.NewInt(maxLead+maxWait)) <= 0:
		return tick, lead.Int64() - maxLead, nil
	}
	return nil, 0, pgid.ErrClockBehind
}

func TestLawAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		maxLead := rapid.Int64Range(1, 300).Draw(t, "max lead")
		maxWait := rapid.Int64Range(0, 300).Draw(t, "max wait")
		now := rapid.OneOf(edgy(-2000, 2000), edgy(maxMilli-2000, maxMilli+2), edgy(0, maxMilli), edgy(-1<<50, 1<<53)).Draw(t, "now")
		// Mostly within reach of the clock, where the decisions are.
		last := rapid.OneOf(
			rapid.Just(int64(-1)),
			rapid.Int64Range(0, 1<<50-1),
			rapid.Map(rapid.Int64Range(-700*1024, 700*1024), func(lead int64) int64 {
				return min(max(now, -1, lead/1024), maxMilli)*1024 + lead
			}),
		).Draw(t, "last")
		last = min(max(last, -1), int64(pgid.MaxTick))

		wantTick, wantWait, wantErr := lawModel(maxLead, maxWait, last, now, 1)
		limits := pgid.Limits{MaxLead: time.Duration(maxLead) * ms, MaxWait: time.Duration(maxWait) * ms}
		tick, wait, err := limits.Next(pgid.Tick(last), now)
		if !errors.Is(err, wantErr) || wait != time.Duration(wantWait)*ms {
			t.Fatalf("Next(%d, %d) = %d, %s, %v, want %d ms, %v", last, now, tick, wait, err, wantWait, wantErr)
		}
		if wantErr == nil && big.NewInt(int64(tick)).Cmp(wantTick) != 0 {
			t.Fatalf("Next(%d, %d) = %d, want %d", last, now, tick, wantTick)
		}

		n := rapid.OneOf(edgy(1, 1024*maxLead), edgy(-1, 1024*maxLead+1), edgy(1, 3)).Draw(t, "n")
		wantTick, wantWait, wantErr = lawModel(maxLead, maxWait, last, now, n)
		first, wait, err := limits.NextN(pgid.Tick(last), now, int(n))
		if !errors.Is(err, wantErr) || wait != time.Duration(wantWait)*ms {
			t.Fatalf("NextN(%d, %d, %d) = %d, %s, %v, want %d ms, %v", last, now, n, first, wait, err, wantWait, wantErr)
		}
		if wantErr == nil && big.NewInt(int64(first)).Cmp(wantTick) != 0 || wantErr != nil && first != 0 {
			t.Fatalf("NextN(%d, %d, %d) = %d, want %d", last, now, n, first, wantTick)
		}
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	tests := []struct {
		name   string
		limits pgid.Limits
		ok     bool
	}{
		{"zero", pgid.Limits{}, true},
		{"default", pgid.DefaultLimits(), true},
		{"smallest", pgid.Limits{MaxLead: ms}, true},
		{"largest", pgid.Limits{MaxLead: year, MaxWait: year}, true},
		{"only a wait", pgid.Limits{MaxWait: ms}, false},
		{"negative lead", pgid.Limits{MaxLead: -ms, MaxWait: ms}, false},
		{"lead below a ms", pgid.Limits{MaxLead: time.Microsecond}, false},
		{"lead with a fraction", pgid.Limits{MaxLead: ms + 1}, false},
		{"lead too large", pgid.Limits{MaxLead: year + ms}, false},
		{"negative wait", pgid.Limits{MaxLead: ms, MaxWait: -ms}, false},
		{"wait with a fraction", pgid.Limits{MaxLead: ms, MaxWait: ms / 2}, false},
		{"wait too large", pgid.Limits{MaxLead: ms, MaxWait: year + ms}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g, err := pgid.NewGenerator(0, pgid.GeneratorConfig{Limits: test.limits})
			if test.ok != (err == nil) || test.ok != (g != nil) || !test.ok && !errors.Is(err, pgid.ErrOutOfRange) {
				t.Errorf("NewGenerator: %v, %v, want ok %t", g, err, test.ok)
			}
		})
	}
}

// Next is public: it holds its promise for arguments that no Generator gives it.
func TestNextAtTheEdges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits pgid.Limits
		last   pgid.Tick
		now    int64
		want   pgid.Tick
		err    error
	}{
		"the zero limits are the default":      {pgid.Limits{}, 5000*1024 + 1023, 5000, 5001 * 1024, nil},
		"the earliest clock there is":          {pgid.DefaultLimits(), -1, math.MinInt64, 0, pgid.ErrClockBehind},
		"the last tick there is":               {pgid.DefaultLimits(), math.MaxInt64, 5000, 0, pgid.ErrTimeExhausted},
		"a last tick that was never drawn":     {pgid.DefaultLimits(), -5000, -7, 0, nil},
		"the last but one tick":                {pgid.DefaultLimits(), pgid.MaxTick - 1, 1<<40 - 1, pgid.MaxTick, nil},
		"the last tick, and the clock with it": {pgid.DefaultLimits(), pgid.MaxTick, 1<<40 - 1, 0, pgid.ErrTimeExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tick, _, err := c.limits.Next(c.last, c.now)
			if !errors.Is(err, c.err) || tick != c.want {
				t.Errorf("Next(%d, %d) = %d, %v, want %d, %v", c.last, c.now, tick, err, c.want, c.err)
			}
		})
	}
}
