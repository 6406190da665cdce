// Package postgresids_test is the proof, in real PostgreSQL, that the SQL and the
// Go of this project agree and keep their promises.
package postgresids_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }

// seed is PGID_TEST_SEED, or a new one that is printed, to run a failure again.
func seed(t testing.TB) *rand.Rand {
	t.Helper()
	s, err := strconv.ParseUint(os.Getenv("PGID_TEST_SEED"), 10, 64)
	if err != nil {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("PGID_TEST_SEED=%d", s)
	return rand.New(rand.NewPCG(s, 0))
}

// state is the SQLSTATE of an error, "" for none.
func state(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestVectors(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var vectors struct {
		IDs []struct {
			Name, Time string
			Floored    string `json:"floored_time"`
			Shard, Seq int
			ID         pgid.ID
		}
		Bounds []struct {
			Name, Time string
			Min, Max   pgid.ID
		}
		Errors []struct {
			Name, Time string
			Shard, Seq *int
			Error      string
		}
	}
	data, err := os.ReadFile("pgid/testdata/vectors.json")
	if err == nil {
		err = json.Unmarshal(data, &vectors)
	}
	if err != nil || len(vectors.IDs) < 20 || len(vectors.Bounds) < 5 || len(vectors.Errors) < 5 {
		t.Fatalf("vectors: %d, %d, %d of them, %v", len(vectors.IDs), len(vectors.Bounds), len(vectors.Errors), err)
	}
	for _, v := range vectors.IDs {
		id := pgtest.Query[pgid.ID](t, db, "SELECT pgid.make_id($1::text::timestamptz, $2, $3)", v.Time, v.Shard, v.Seq)
		if id != v.ID {
			t.Errorf("%s: make_id(%s, %d, %d) = %d, want %d", v.Name, v.Time, v.Shard, v.Seq, id, v.ID)
		}
		var at, at2 time.Time
		var shard, seq, shard2, seq2 int
		err := db.Pool.QueryRow(t.Context(),
			`SELECT d."time", d.shard, d.seq, pgid.id_time($1), pgid.id_shard($1), pgid.id_seq($1) FROM pgid.decode($1) AS d`, v.ID).
			Scan(&at, &shard, &seq, &at2, &shard2, &seq2)
		want, _ := time.Parse(time.RFC3339Nano, v.Floored)
		if err != nil || !at.Equal(want) || shard != v.Shard || seq != v.Seq || !at2.Equal(at) || shard2 != shard || seq2 != seq {
			t.Errorf("%s: decode(%d) = %s, %d, %d and %s, %d, %d, %v; want %s, %d, %d",
				v.Name, v.ID, at, shard, seq, at2, shard2, seq2, err, want, v.Shard, v.Seq)
		}
	}
	for _, v := range vectors.Bounds {
		low := pgtest.Query[pgid.ID](t, db, "SELECT pgid.min_id($1::text::timestamptz)", v.Time)
		high := pgtest.Query[pgid.ID](t, db, "SELECT pgid.max_id($1::text::timestamptz)", v.Time)
		if low != v.Min || high != v.Max {
			t.Errorf("%s: min_id, max_id(%s) = %d, %d, want %d, %d", v.Name, v.Time, low, high, v.Min, v.Max)
		}
	}
	for _, v := range vectors.Errors {
		at, shard, seq := v.Time, 0, 0
		if at == "" {
			at = "2026-06-01T00:00:00Z"
		}
		if v.Shard != nil {
			shard = *v.Shard
		}
		if v.Seq != nil {
			seq = *v.Seq
		}
		var id pgid.ID
		err := db.Pool.QueryRow(t.Context(), "SELECT pgid.make_id($1::text::timestamptz, $2, $3)", at, shard, seq).Scan(&id)
		if state(err) != v.Error {
			t.Errorf("%s: make_id(%s, %d, %d) gave %d, %v, want SQLSTATE %s", v.Name, at, shard, seq, id, err, v.Error)
		}
	}
}

// SQL and Go compose, decode and bound alike: on 100,000 random values.
func TestAgreementOnRandomValues(t *testing.T) {
	t.Parallel()
	db, random := pgtest.New(t), seed(t)
	const values = 100_000
	ids := make([]int64, values)
	times := make([]time.Time, values)
	layout := pgid.Layout{}
	for i := range ids {
		ids[i] = int64(random.Uint64())
		micros := random.Int64N(1<<41*1000) - 1<<40*1000
		times[i] = layout.Epoch().Add(time.Duration(micros/1000) * time.Millisecond).Add(time.Duration(micros%1000) * time.Microsecond)
	}
	rows, err := db.Pool.Query(t.Context(), `
		SELECT id, at, d."time", d.shard, d.seq,
		       pgid.make_id(d."time", d.shard, d.seq), pgid.make_id(at, d.shard, d.seq), pgid.min_id(at), pgid.max_id(at)
		  FROM unnest($1::bigint[], $2::timestamptz[]) AS v(id, at), pgid.decode(id) AS d`, ids, times)
	if err != nil {
		t.Fatal(err)
	}
	var (
		id, again, made, low, high pgid.ID
		at                         time.Time
		parts                      pgid.Parts
		n                          int
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &at, &parts.Time, &parts.Shard, &parts.Seq, &again, &made, &low, &high}, func() error {
		n++
		parts.Time = parts.Time.UTC()
		goMade, err1 := layout.Encode(at, parts.Shard, parts.Seq)
		goLow, err2 := layout.Min(at)
		goHigh, err3 := layout.Max(at)
		if layout.Decode(id) != parts || again != id || goMade != made || goLow != low || goHigh != high {
			return fmt.Errorf("id %d at %s: SQL has %+v, %d, %d, %d, %d; Go has %+v, %d, %d, %d (%v)",
				id, at, parts, again, made, low, high, layout.Decode(id), goMade, goLow, goHigh, fmt.Sprint(errors.Join(err1, err2, err3)))
		}
		return nil
	})
	if err != nil || n != values {
		t.Fatalf("after %d values: %v", n, err)
	}
}

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

// randomTrace is a sequence of clock readings, in milliseconds since the epoch.
func randomTrace(random *rand.Rand) []int64 {
	const end = 1 << 40
	now := []int64{0, 3, 29_000_000_000, end - 1200, -100}[random.IntN(5)]
	var trace []int64
	var last pgid.Tick = -1
	for step, steps := 0, 20+random.IntN(40); step < steps; step++ {
		repeat := 1
		switch random.IntN(24) {
		case 0, 1, 2, 3, 4, 5, 6, 7: // the clock stands: more of this millisecond
			repeat = 1 + random.IntN(8)
		case 8, 9, 10, 11, 12:
			now++
		case 13, 14:
			now += random.Int64N(50)
		case 15:
			now += random.Int64N(5000)
		case 16, 17, 18: // back, within the lead
			now -= random.Int64N(60)
		case 19: // back, to about the lead's end
			now -= 98 + random.Int64N(5)
		case 20: // back, to where a call is refused
			now -= 1101 + random.Int64N(5000)
		case 21: // forth again
			now += 1101 + random.Int64N(5000)
		case 22: // overflow: more than 1024 in a millisecond
			if random.IntN(6) == 0 {
				now += 200
				repeat = 1000 + random.IntN(200)
			}
		case 23: // at the end of time, and beyond
			if now > end/2 {
				now = end - random.Int64N(3)
			}
		}
		for range repeat {
			tick, wait, err := pgid.DefaultLimits().Next(last, now)
			if wait > 2*time.Millisecond && random.IntN(20) > 0 {
				// SQL's sleeps are real: long ones are rare, or the test would take hours.
				now += wait.Milliseconds() - random.Int64N(3)
				tick, _, err = pgid.DefaultLimits().Next(last, now)
			}
			if last++; err == nil { // a refused call burns a tick
				last = tick
			}
			trace = append(trace, now)
			if err != nil && random.IntN(3) == 0 { // the clock is mended
				now = min(int64(last)>>pgid.SeqBits+random.Int64N(50), end-1)
			}
		}
	}
	return trace
}

// The production next_id, with nothing but its clock replaced, and the Generator are
// shown the same clock readings: they draw the same ticks, and refuse the same calls.
func TestTraces(t *testing.T) {
	t.Parallel()
	db, random := pgtest.New(t), seed(t)
	const traces = 1000
	db.Exec(t, `CREATE OR REPLACE FUNCTION pgid.now_ms() RETURNS bigint LANGUAGE sql VOLATILE
		RETURN current_setting('trace.now_ms')::bigint`)
	db.Exec(t, `CREATE FUNCTION follow(shard integer, trace bigint[], OUT id bigint, OUT refused text, OUT took_us bigint) RETURNS SETOF record
		LANGUAGE plpgsql AS $$
		DECLARE reading bigint; start timestamptz;
		BEGIN
			FOREACH reading IN ARRAY trace LOOP
				PERFORM set_config('trace.now_ms', reading::text, false);
				id := NULL; refused := NULL; start := clock_timestamp();
				BEGIN
					id := pgid.next_id(shard);
				EXCEPTION WHEN OTHERS THEN refused := SQLSTATE;
				END;
				took_us := extract(epoch FROM clock_timestamp() - start) * 1000000;
				RETURN NEXT;
			END LOOP;
		END $$`)
	db.Exec(t, "SELECT pgid.create_shards(0, $1)", traces-1)

	var drawn, waited, refused, exhausted int
	for shard := range pgid.Shard(traces) {
		trace := randomTrace(random)
		if shard == 0 { // each side of each limit: 100 ms, and 1100 ms
			trace = []int64{5000, 4900, 4899, 4900, 3901, 3900, 3899, 5000, 3899, 3900, 4900}
		}
		rows, err := db.Pool.Query(t.Context(), "SELECT id, refused, took_us FROM follow($1, $2)", int32(shard), trace)
		if err != nil {
			t.Fatal(err)
		}
		clock := &traceClock{}
		generator, err := pgid.NewGenerator(shard, pgid.GeneratorConfig{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		var (
			id      *pgid.ID
			refusal *string
			took    int64 // microseconds, of the real clock
			i       int
			last    pgid.Tick = -1
		)
		_, err = pgx.ForEachRow(rows, []any{&id, &refusal, &took}, func() error {
			clock.now = pgid.Layout{}.Epoch().Add(time.Duration(trace[i]) * time.Millisecond).
				Add(time.Duration(random.Int64N(int64(time.Millisecond))))
			slept := clock.slept
			got, err := generator.Next(t.Context())
			switch {
			case err == nil && id != nil && *id == got:
				last = got.Tick()
				drawn++
				if wait := clock.slept - slept; wait > 0 {
					waited++
					if took < wait.Microseconds() {
						return fmt.Errorf("call %d, clock %d ms: SQL took %d us, Go waited %s", i, trace[i], took, wait)
					}
				}
			case refusal != nil && (*refusal == "ID001" && errors.Is(err, pgid.ErrClockBehind) ||
				*refusal == "ID004" && errors.Is(err, pgid.ErrTimeExhausted)):
				// SQL has drawn before it looked at the clock: that tick is burnt.
				last++
				generator.Advance(last.ID(shard))
				if refused++; *refusal == "ID004" {
					exhausted++
				}
			default:
				return fmt.Errorf("call %d, clock %d ms: SQL gave %v, %v; Go gave %d, %v",
					i, trace[i], id, deref(refusal), got, fmt.Sprint(err))
			}
			i++
			return nil
		})
		if err != nil || i != len(trace) {
			t.Fatalf("trace %d, after %d of %d calls: %v\n%v", shard, i, len(trace), err, trace[:min(i+1, len(trace))])
		}
	}
	t.Logf("%d traces: %d ticks drawn alike, %d after a wait, %d calls refused alike, %d of them at the end of time",
		traces, drawn, waited, refused, exhausted)
	if drawn < 10*traces || waited == 0 || refused == exhausted || exhausted == 0 {
		t.Error("the traces did not reach every kind of outcome")
	}
}

func deref(s *string) string {
	if s == nil {
		return "no refusal"
	}
	return *s
}
