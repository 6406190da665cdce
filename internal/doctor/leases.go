package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// maxWindow is the longest window that a lease is granted.
const maxWindow = time.Hour

type lease struct {
	Shard     int
	Pool      string
	State     string
	Holder    *string
	Until     *time.Time
	Changed   *time.Time // when it was granted, or renewed last
	UntilTick int64
}

// checkLeases looks at the shards that are set apart, pool by pool.
func (e *exam) checkLeases(ctx context.Context) error {
	leases, err := collect[lease](ctx, e, `
		SELECT s.shard, s.pool, s.state, s.holder, s.lease_until, coalesce(s.renewed, s.granted), l.until_tick
		  FROM pgid.lease_status AS s
		  JOIN pgid.lease AS l ON l.shard = s.shard
		 ORDER BY s.pool, s.shard`)
	if err != nil {
		return err
	}
	pools := make(map[string][]lease)
	for _, l := range leases {
		pools[l.Pool] = append(pools[l.Pool], l)
		e.addLease(l)
		if err := e.compareWindow(ctx, l); err != nil {
			return err
		}
	}
	for _, pool := range slices.Sorted(maps.Keys(pools)) {
		e.addPool(pool, pools[pool])
	}
	if len(pools) == 0 {
		e.ok("no shard is set apart for leases")
	}
	return nil
}

// compareWindow looks whether the shard is past the window that was granted of it last.
func (e *exam) compareWindow(ctx context.Context, l lease) error {
	last := l.UntilTick - 1
	if s := e.shard(l.Shard); s == nil || !s.open() || s.floor() >= last {
		return nil
	}
	if behind, err := e.isBehind(ctx, l.Shard, last); err != nil || !behind {
		return err
	}
	e.add(Error, fmt.Sprintf("SELECT pgid.advance_shard(%d, %d);", l.Shard, idOf(last, l.Shard)),
		"pool %s: shard %d is behind the window that was granted of it: its sequences were set back, and IDs of the holder's can repeat", l.Pool, l.Shard)
	return nil
}

func (e *exam) addLease(l lease) {
	now := e.clock.now()
	live := l.State == "held" || l.State == "released"
	switch {
	case l.State == "expired":
		e.add(Info, "", "pool %s: %s has let its lease of shard %d expire, without giving it back: stopped or cut off", l.Pool, nameOf(l.Holder), l.Shard)
	case live && l.Changed.Sub(now) > time.Second:
		e.add(Warning, "if the server's clock is wrong, correct it; else wait",
			"pool %s: shard %d was leased at %s, which is %s from now: the clock went back", l.Pool, l.Shard, l.Changed.UTC().Format(time.RFC3339), rounded(l.Changed.Sub(now)))
	case live && l.Until.Sub(now) > maxWindow+e.schema.maxLead+e.schema.maxWait:
		e.add(Warning, "if the server's clock is wrong, correct it; else wait, or use other shards",
			"pool %s: the window of shard %d ends %s from now: nobody is granted it until then", l.Pool, l.Shard, rounded(l.Until.Sub(now)))
	}
}

func (e *exam) addPool(pool string, leases []lease) {
	count := make(map[string]int)
	soonest := time.Duration(-1)
	for _, l := range leases {
		count[l.State]++
		if l.State != "held" && l.State != "released" {
			continue
		}
		if left := l.Until.Sub(e.clock.now()); soonest < 0 || left < soonest {
			soonest = left
		}
	}
	if free := count["free"] + count["expired"]; free > 0 {
		e.ok("pool %s: %d of %d shards may be leased", pool, free, len(leases))
		return
	}
	next := 0
	for _, s := range e.shards {
		next = max(next, s.Number+1)
	}
	fix := "DELETE FROM pgid.lease WHERE pool = " + literal(pool) + "; -- if it is not wanted; no shard number is left for another"
	if next <= 8191 {
		fix = fmt.Sprintf("SELECT pgid.create_pool(%s, %d, %d); -- if no other database uses these", literal(pool), next, min(next+len(leases)-1, 8191))
	}
	what := "all are retired"
	if soonest >= 0 {
		what = fmt.Sprintf("%d held, %d given back, %d retired; one may be free in %s", count["held"], count["released"], count["retired"], rounded(soonest))
	}
	e.add(Warning, fix, "pool %s: none of its %d shards may be leased (ID006): %s", pool, len(leases), what)
}
