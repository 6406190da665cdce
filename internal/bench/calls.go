package bench

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// Calls measures what an ID costs: in one session, in many, as a row of an INSERT,
// as a range, in the first call of a new session, and from Go.
func Calls(ctx context.Context, url string, opts Options) (*Report, error) {
	r, err := start(ctx, "calls", url, opts, baseShards)
	if err != nil {
		return nil, err
	}
	defer r.close(ctx)
	return r.report, r.calls(ctx)
}

func (r *runner) calls(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		r.oneSession, r.manySessions, r.inserted,
		func(ctx context.Context) error { return r.firstCalls(ctx, baseShards) },
		r.ranges, r.fromGo,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) oneSession(ctx context.Context) error {
	trials := []trial{r.perID(queryAlone, 0, each("n", r.IDs))}
	for _, p := range r.peers() {
		trials = append(trials, r.perID(p.name, 0, each(p.call, r.IDs)))
		if p.name == nextID {
			trials = append(trials, r.perID(nextIDs, 0, batched(batchSize, r.IDs)))
		}
	}
	return r.measure(ctx, Group{
		Name: "one_session", Title: "One session, SELECT", Unit: "us/ID", Better: less,
		Note: "next_ids: 50,000 a call. All figures include the query alone, which makes no ID.",
	}, trials, instagram, nextval)
}

// manySessions is throughput, all sessions on one shard.
func (r *runner) manySessions(ctx context.Context) error {
	perSession := max(1, 2*r.IDs/r.Sessions)
	var trials []trial
	for _, p := range r.peers() {
		trials = append(trials, r.together(p.name, 0, r.Sessions, same(each(p.call, perSession))))
		if p.name == nextID {
			// On a shard of its own: it may use up the lead, and next_id would wait.
			trials = append(trials, r.together(nextIDs, 0, r.Sessions, same(batches("1", min(1000, perSession), perSession))))
		}
	}
	return r.measure(ctx, Group{
		Name: "many_sessions", Title: fmt.Sprintf("%d sessions on one shard", r.Sessions), Unit: "IDs/s", Better: more,
		Note: "next_ids: 1,000 a call. A shard gives 1,024 a ms for long, and 100 ms of it at once.",
	}, trials, instagram, nextval)
}

// same is one source for every session.
func same(s source) func(int) source { return func(int) source { return s } }

// together measures IDs a second, of many sessions at once, each with its own source.
func (r *runner) together(name string, x, sessions int, from func(session int) source) trial {
	return trial{name: name, x: x, run: func(ctx context.Context) (float64, error) {
		conns, err := r.sessions(ctx, sessions)
		if err != nil {
			return 0, err
		}
		if err := rest(ctx); err != nil {
			return 0, err
		}
		group, drawing := errgroup.WithContext(ctx)
		begin := time.Now()
		ids := 0
		for i, conn := range conns {
			drawn := from(i)
			ids += drawn.ids
			group.Go(func() error {
				_, err := conn.Exec(drawing, fmt.Sprintf(counting, drawn.sql))
				return err
			})
		}
		err = group.Wait()
		return float64(ids) / time.Since(begin).Seconds(), err
	}}
}

// inserted is INSERT ... SELECT into a table without an index: nothing hides what
// the ID costs. The table with its index is Insert's.
func (r *runner) inserted(ctx context.Context) error {
	perRow := func(name string, from source) trial {
		return trial{name: name, run: func(ctx context.Context) (float64, error) {
			if _, err := r.conn.Exec(ctx, "TRUNCATE pgid_bench.sink"); err != nil {
				return 0, err
			}
			if err := rest(ctx); err != nil {
				return 0, err
			}
			took, err := r.timed(ctx, "INSERT INTO pgid_bench.sink (id) "+from.sql)
			return micros(took, from.ids), err
		}}
	}
	var trials []trial
	for _, p := range r.bigints() {
		trials = append(trials, perRow(p.name, each(p.call, r.IDs)))
	}
	trials = append(trials, perRow(nextIDs, batched(batchSize, r.IDs)))
	return r.measure(ctx, Group{
		Name: "insert_select", Title: "One session, INSERT ... SELECT into a table without an index", Unit: "us/row", Better: less,
		Note: "next_ids: 50,000 a call.",
	}, trials, instagram, nextval)
}

// firstCalls is the first call of a new session, connecting apart, each time the
// median of some sessions.
func (r *runner) firstCalls(ctx context.Context, shards int) error {
	const perRound = 5
	var trials []trial
	for _, p := range r.bigints() {
		trials = append(trials, trial{name: p.name, x: shards, run: func(ctx context.Context) (float64, error) {
			var took []float64
			for range perRound {
				conn, err := r.connect(ctx)
				if err != nil {
					return 0, err
				}
				begin := time.Now()
				_, err = conn.Exec(ctx, "SELECT "+p.call)
				took = append(took, float64(time.Since(begin).Microseconds())/1e3)
				_ = conn.Close(context.WithoutCancel(ctx))
				if err != nil {
					return 0, err
				}
			}
			return median(took), nil
		}})
	}
	return r.measure(ctx, Group{
		Name: "first_call", Title: "First call of a new session, once connected", Unit: "ms", Better: less, X: "shards",
	}, trials, instagram, nextval)
}
