package doctor

import (
	"context"
	"fmt"
)

// checkStats reads what was counted since pgid was installed, or the counts set back.
func (e *exam) checkStats(ctx context.Context) error {
	type row struct{ Waits, Refusals, Busy, Steps int64 }
	r, err := one[row](ctx, e, "SELECT waits, refusals, busy, clock_steps FROM pgid.stats")
	if err != nil {
		return err
	}
	before := len(e.findings)
	for _, c := range []struct {
		count    int64
		sequence string
		what     string
	}{
		{r.Refusals, "count_refusals", "calls were refused, as the clock was behind the shard (ID001) or time exhausted (ID004)"},
		{r.Busy, "count_busy", "calls gave up, as a shard's lock stayed taken (ID005)"},
		{r.Steps, "count_steps", "times the clock was seen to go back: have the server's clock slewed, not stepped"},
	} {
		if c.count > 0 {
			e.add(Warning, fmt.Sprintf("SELECT setval('pgid.%s', 1, false); -- to count anew, once the cause is known", c.sequence), "%d %s", c.count, c.what)
		}
	}
	if len(e.findings) == before {
		e.ok("no call was refused; %d waited for the clock", r.Waits)
	} else if r.Waits > 0 {
		e.add(Info, "", "%d calls waited for the clock", r.Waits)
	}
	return nil
}
