package bench

import (
	"context"
	"fmt"
	"time"
)

const (
	rangeShards = 256
	rangePasses = 5
	largestN    = 102_400 // what max_lead allows: 1024 a ms for 100 ms
)

// ranges is what a reservation costs beside a single ID, small and as large as can
// be. The largest uses up its shard's lead, and the next on that shard would wait. So
// a measurement goes over many shards, a call each, and rests before the next pass.
func (r *runner) ranges(ctx context.Context) error {
	if err := r.createShards(ctx, baseShards, rangeShards); err != nil {
		return err
	}
	perCall := func(count int) trial {
		sql := fmt.Sprintf(counting, each(fmt.Sprintf("pgid.reserve(n - 1, %d)", count), rangeShards).sql)
		return trial{name: reserveOf(count), run: func(ctx context.Context) (float64, error) {
			var total time.Duration
			for range rangePasses {
				if err := rest(ctx); err != nil {
					return 0, err
				}
				took, err := r.timed(ctx, sql)
				if err != nil {
					return 0, err
				}
				total += took
			}
			return micros(total, rangePasses*rangeShards), nil
		}}
	}
	return r.measure(ctx, Group{
		Name: "ranges", Title: "One session, a range a call", Unit: "us/call", Better: less,
	}, []trial{r.perID(nextID, 0, each("pgid.next_id(0)", r.IDs)), perCall(1), perCall(largestN)}, nextID, reserveOf(1))
}

// reserveOf names the call with its count.
func reserveOf(count int) string { return fmt.Sprintf("reserve(%d)", count) }
