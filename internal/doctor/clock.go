package doctor

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// maxOffset is how far clocks may differ before it is worth a warning.
const maxOffset = 500 * time.Millisecond

// clock is the server's clock beside this machine's.
type clock struct {
	offset  time.Duration // of the server's: positive where it is ahead
	unknown time.Duration // by how much the offset may be wrong: half a round trip
	known   bool
}

// now is the server's clock as this machine computes it.
func (c clock) now() time.Time { return time.Now().Add(c.offset) }

// readClock asks the server for its time, and takes the answer that came fastest.
func (e *exam) readClock(ctx context.Context) error {
	return e.begin(ctx, func(tx pgx.Tx) error {
		for range 5 {
			asked := time.Now()
			var server time.Time
			if err := tx.QueryRow(ctx, "SELECT pgid.clock()").Scan(&server); err != nil {
				return err
			}
			answered := time.Now()
			trip := answered.Sub(asked)
			if c := (clock{server.Sub(asked.Add(trip / 2)), trip / 2, true}); !e.clock.known || c.unknown < e.clock.unknown {
				e.clock = c
			}
		}
		return nil
	})
}

// checkClock compares the server's clock with this machine's, with the epoch, and with
// what the shards have issued.
func (e *exam) checkClock(ctx context.Context) error {
	if err := e.readClock(ctx); err != nil {
		return err
	}
	before := len(e.findings)
	now := e.clock.now()
	if now.Before(e.schema.epoch) {
		e.add(Error, "correct the server's clock", "the server's clock shows %s, before the epoch, %s: no ID is issued until then",
			now.UTC().Format(time.RFC3339), e.schema.epoch.Format(time.RFC3339))
	}
	if off := e.clock.offset; off.Abs()-e.clock.unknown > maxOffset {
		e.add(Warning, "find out which is wrong, and have both follow a time server", "the server's clock is %s %s this machine's",
			rounded(off.Abs()), aheadOrBehind(off))
	}
	for _, s := range e.shards {
		if s.Pool == nil && !s.Retired && !s.stopped() {
			e.addLead(s, now)
		}
	}
	if len(e.findings) == before {
		e.ok("the server's clock agrees with this machine's to %s, and no shard is ahead of it", rounded(e.clock.offset.Abs()+e.clock.unknown))
	}
	return nil
}

// addLead says what a shard's next tick means to the call that draws it. Leases are another
// matter: see checkLeases.
func (e *exam) addLead(s shard, now time.Time) {
	next := e.timeOf(s.floor() + 1)
	lead := next.Sub(now)
	limit := e.schema.maxLead + e.schema.maxWait
	switch {
	case lead > limit:
		e.add(Error, "if the server's clock is wrong, correct it; else wait, or use another shard",
			"shard %d is %s ahead of the clock, and issues no ID (ID001) for %s, until %s", s.Number, rounded(lead), rounded(lead-limit),
			next.Add(-limit).Format(time.RFC3339))
	case lead > e.schema.maxLead:
		e.add(Info, "", "shard %d is %s ahead of the clock: calls wait", s.Number, rounded(lead))
	}
}

func aheadOrBehind(d time.Duration) string {
	if d < 0 {
		return "behind"
	}
	return "ahead of"
}

// rounded is a duration as people read it.
func rounded(d time.Duration) time.Duration {
	switch {
	case d.Abs() < 10*time.Second:
		return d.Round(time.Millisecond)
	case d.Abs() < time.Hour:
		return d.Round(time.Second)
	}
	return d.Round(time.Minute)
}
