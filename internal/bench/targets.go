package bench

import (
	"context"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
)

const mostShards = 8192

// Targets is Calls, and the first call with as many shards as can be: all that
// [Report.Verdicts] asks about.
func Targets(ctx context.Context, url string, opts Options) (*Report, error) {
	r, err := start(ctx, "calls", url, opts, baseShards)
	if err != nil {
		return nil, err
	}
	defer r.close(ctx)
	if err := r.calls(ctx); err != nil {
		return nil, err
	}
	if err := r.createShards(ctx, rangeShards, mostShards); err != nil {
		return nil, err
	}
	return r.report, r.firstCalls(ctx, mostShards)
}

// A Verdict holds a figure against its target.
type Verdict struct {
	What   string
	Got    Spread
	Target float64
	AtMost bool // else at least
}

// Met reports whether the median meets the target. What was not measured, 0, does not.
func (v Verdict) Met() bool {
	if v.AtMost {
		return 0 < v.Got.Median && v.Got.Median <= v.Target
	}
	return v.Got.Median >= v.Target
}

// Verdicts are what pgid has to meet. PostgreSQL 19 made SELECT ... INTO cheap, and
// with it Instagram's function.
func (r *Report) Verdicts() []Verdict {
	cost, throughput := 0.55, 1.2
	if r.Server.Number >= 190000 {
		cost, throughput = 1.1, 0.8
	}
	ratio := func(group, name string, x int, base string) Spread {
		if s := r.Find(group, name, x); s != nil {
			return s.Ratios[base]
		}
		return Spread{}
	}
	value := func(group, name string) Spread {
		if s := r.Find(group, name, 0); s != nil {
			return s.Spread
		}
		return Spread{}
	}
	const atMost, atLeast = true, false
	one, largest := reserveOf(1), reserveOf(largestN)
	return []Verdict{
		{"next_id / instagram, one session", ratio("one_session", nextID, 0, instagram), cost, atMost},
		{fmt.Sprintf("next_id / instagram, IDs/s of %d sessions", r.Parameters.Sessions), ratio("many_sessions", nextID, 0, instagram), throughput, atLeast},
		{"next_ids / nextval, a row of SELECT", ratio("one_session", nextIDs, 0, nextval), 1.2, atMost},
		{"next_ids / nextval, a row of INSERT ... SELECT", ratio("insert_select", nextIDs, 0, nextval), 1.2, atMost},
		{one + " / next_id, a call", ratio("ranges", one, 0, nextID), 50, atMost},
		{largest + " / next_id, a call", ratio("ranges", largest, 0, nextID), 50, atMost},
		{largest + " / " + one, ratio("ranges", largest, 0, one), 1.2, atMost},
		{"first call / instagram, 16 shards", ratio("first_call", nextID, baseShards, instagram), 2, atMost},
		{"first call / instagram, 8,192 shards", ratio("first_call", nextID, mostShards, instagram), 2.5, atMost},
		{"Allocator, IDs/s for long", value("go_sustained", allocator), 0.9 * 1_024_000, atLeast},
	}
}

// VerdictsText is the verdicts as people read them.
func (r *Report) VerdictsText() string {
	t := newTable([]any{"", "median", "least to most", "target", ""})
	for _, v := range r.Verdicts() {
		target, met := "at least "+Figure(v.Target), "met"
		if v.AtMost {
			target = "at most " + Figure(v.Target)
		}
		if !v.Met() {
			met = "MISSED"
		}
		t.AppendRow(table.Row{v.What, Figure(v.Got.Median), Figure(v.Got.Min) + " to " + Figure(v.Got.Max), target, met})
	}
	return t.Render()
}
