package postgresids_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// traceClock is the clock of a Generator that follows a trace: it shows what it is
// given, and remembers what it was asked to sleep.
type traceClock struct {
	now   time.Time
	slept time.Duration
}

func (c *traceClock) Now() time.Time { return c.now }
func (c *traceClock) Sleep(_ context.Context, d time.Duration) error {
	c.slept += d
	return nil
}

// shownClock replaces pgid.clock by one that shows the setting trace.now, in
// microseconds since the epoch.
func shownClock(t *testing.T, db *pgtest.Database) {
	t.Helper()
	db.Exec(t, `CREATE OR REPLACE FUNCTION pgid.clock() RETURNS timestamptz LANGUAGE sql VOLATILE
		RETURN timestamptz '1970-01-01 00:00:00+00' + pgid.epoch_ms() * interval '1 millisecond'
		     + current_setting('trace.now')::bigint * interval '1 microsecond'`)
}

// The production next_id, next_ids and reserve, with nothing but their clock replaced,
// and the Generator are shown the same clock readings: they draw the same ticks, and
// refuse the same calls.
func TestTraces(t *testing.T) {
	t.Parallel()
	db, random := pgtest.New(t), pgtest.Seed(t)
	const traces = 300
	shownClock(t, db)
	db.Exec(t, `CREATE FUNCTION follow(shard integer, clock bigint[], counts integer[], ranges boolean[],
		OUT first bigint, OUT last bigint, OUT refused text, OUT consecutive boolean, OUT took_us bigint) RETURNS SETOF record
		LANGUAGE plpgsql AS $$
		DECLARE start timestamptz;
		BEGIN
			FOR i IN 1 .. cardinality(clock) LOOP
				PERFORM set_config('trace.now', clock[i]::text, false);
				first := NULL; last := NULL; refused := NULL; consecutive := true; start := clock_timestamp();
				BEGIN
					IF counts[i] = 0 THEN
						first := pgid.next_id(shard);
						last := first;
					ELSIF ranges[i] THEN
						SELECT r.first, r.last INTO first, last FROM pgid.reserve(shard, counts[i]) AS r;
					ELSE
						SELECT min(id), max(id), count(*) = counts[i] AND bool_and(pgid.id_shard(id) = shard AND pgid.id_tick(id) = pgid.id_tick(head) + n - 1)
						  INTO first, last, consecutive
						  FROM (SELECT id, n, first_value(id) OVER (ORDER BY n) AS head FROM pgid.next_ids(shard, counts[i]) WITH ORDINALITY AS x(id, n)) AS drawn;
					END IF;
				EXCEPTION WHEN OTHERS THEN refused := SQLSTATE;
				END;
				took_us := extract(epoch FROM clock_timestamp() - start) * 1000000;
				RETURN NEXT;
			END LOOP;
		END $$`)
	db.Exec(t, "SELECT pgid.create_shards(0, $1)", traces-1)

	total := map[string]int{}
	for shard := range pgid.Shard(traces) {
		trace := randomTrace(random)
		if shard == 0 {
			trace = limitTrace()
		}
		if i, err := followTrace(t.Context(), db, shard, trace, total); err != nil {
			t.Fatalf("trace %d, after %d of %d calls: %v\n%+v", shard, i, len(trace), err, trace[:min(i+1, len(trace))])
		}
	}
	t.Logf("%d traces, alike on both sides: %v", traces, total)
	for outcome, least := range map[string]int{
		"next": 10 * traces, "next waited": 1, "next ID001": 1, "next ID004": 1,
		"batch": traces, "batch waited": 1, "batch ID001": 1, "batch ID004": 1, "batch to the last tick": 1,
	} {
		if total[outcome] < least {
			t.Errorf("the traces came %d times to the outcome «%s», want at least %d", total[outcome], outcome, least)
		}
	}
}

// followTrace shows a trace to SQL and to a Generator, and counts the outcomes. It
// returns how many calls agreed, and how the next did not.
func followTrace(ctx context.Context, db *pgtest.Database, shard pgid.Shard, trace []step, total map[string]int) (agreed int, err error) {
	clock := &traceClock{}
	generator, err := pgid.NewGenerator(shard, pgid.GeneratorConfig{Clock: clock})
	if err != nil {
		return 0, err
	}
	var readings []int64
	var counts []int32
	var ranges []bool
	for _, s := range trace {
		readings, counts, ranges = append(readings, s.now), append(counts, int32(s.count)), append(ranges, s.reserve)
	}
	rows, err := db.Pool.Query(ctx, "SELECT first, last, refused, consecutive, took_us FROM follow($1, $2, $3, $4)",
		int32(shard), readings, counts, ranges)
	if err != nil {
		return 0, err
	}
	var (
		first, last *pgid.ID
		refused     *string
		consecutive bool
		took        int64     // microseconds, of the real clock
		state       pgid.Tick = -1
	)
	_, err = pgx.ForEachRow(rows, []any{&first, &last, &refused, &consecutive, &took}, func() error {
		s := trace[agreed]
		clock.now = pgid.Layout{}.Epoch().Add(time.Duration(s.now/1000) * time.Millisecond).Add(time.Duration(s.now%1000) * time.Microsecond)
		clock.slept = 0
		kind, ids, err := draw(ctx, generator, s.count)
		switch {
		case err == nil && first != nil && last != nil && consecutive && *first == ids[0] && *last == ids[len(ids)-1]:
			state = last.Tick()
			total[kind]++
			if clock.slept > 0 {
				total[kind+" waited"]++
			}
			if took < clock.slept.Microseconds() {
				return fmt.Errorf("SQL took %d us, Go waited %s", took, clock.slept)
			}
			if s.count > 0 && state == pgid.MaxTick {
				total[kind+" to the last tick"]++
			}
		case refused != nil && (*refused == "ID001" && errors.Is(err, pgid.ErrClockBehind) ||
			*refused == "ID004" && errors.Is(err, pgid.ErrTimeExhausted)):
			if s.count == 0 { // SQL has drawn before it looked at the clock: that tick is burnt
				state = min(state+1, pgid.MaxTick)
				generator.Advance(state.ID(shard))
			}
			total[kind+" "+*refused]++
		default:
			return fmt.Errorf("SQL gave %s to %s, consecutive %t, refused %s; Go gave %d of them, %v, %v",
				deref(first), deref(last), consecutive, deref(refused), len(ids), ids[:min(1, len(ids))], fmt.Sprint(err))
		}
		agreed++
		return nil
	})
	if err == nil && agreed != len(trace) {
		err = errors.New("SQL gave no more")
	}
	return agreed, err
}

// draw makes a call of the Generator.
func draw(ctx context.Context, generator *pgid.Generator, count int) (kind string, ids []pgid.ID, err error) {
	if count > 0 {
		ids, err = generator.NextIDs(ctx, count)
		return "batch", ids, err
	}
	id, err := generator.Next(ctx)
	return "next", []pgid.ID{id}, err
}

func deref[T any](v *T) string {
	if v == nil {
		return "nothing"
	}
	return fmt.Sprint(*v)
}
