package main

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/nextid/postgres-ids/internal/bench"
	"github.com/nextid/postgres-ids/internal/display"
)

// A source looks figures up, and keeps the first that was missing.
type source struct {
	*bench.Report
	err error
}

func (s *source) series(group, name string, x int) bench.Series {
	if found := s.Find(group, name, x); found != nil {
		return *found
	}
	if s.err == nil {
		s.err = fmt.Errorf("group %s has no %s for %d: make figures measures it", group, name, x)
	}
	return bench.Series{}
}

func (s *source) median(group, name string, x int) string {
	return bench.Figure(s.series(group, name, x).Median)
}

func (s *source) ratio(group, name string, x int, base string) bench.Spread {
	return s.series(group, name, x).Ratios[base]
}

func spread(s bench.Spread) string {
	return fmt.Sprintf("%s (%s to %s)", bench.Figure(s.Median), bench.Figure(s.Min), bench.Figure(s.Max))
}

// version is as people say it: 15, or "19 rc".
func version(r *bench.Report) string {
	major := fmt.Sprint(r.Server.Number / 10000)
	for _, kind := range []string{"beta", "rc"} {
		if strings.HasPrefix(r.Server.Version, major+kind) {
			return major + " " + kind
		}
	}
	return major
}

// cost is the README's.
func cost(f *figures) (table.Writer, error) {
	t := display.NewTable("PostgreSQL", "one session: cost per ID", "a bare nextval", "16 sessions on one shard: IDs a second")
	for _, r := range f.calls {
		s := source{Report: r}
		t.AppendRow(table.Row{
			version(r),
			spread(s.ratio("one_session", "next_id", 0, "instagram")),
			bench.Figure(s.ratio("one_session", "nextval", 0, "instagram").Median),
			strings.Replace(spread(s.ratio("many_sessions", "next_id", 0, "instagram")), " (", " times (", 1),
		})
		if s.err != nil {
			return nil, s.err
		}
	}
	return t, nil
}

// calls has a column for each version, and a row for each target, after what nextval and a
// UUID cost.
func calls(f *figures) (table.Writer, error) {
	headers := []any{"ratio"}
	rows := []table.Row{{"nextval / instagram, one session"}, {"gen_random_uuid / instagram, one session"}}
	for _, v := range f.calls[0].Verdicts() {
		rows = append(rows, table.Row{v.What})
	}
	for _, r := range f.calls {
		s := source{Report: r}
		headers = append(headers, version(r))
		rows[0] = append(rows[0], spread(s.ratio("one_session", "nextval", 0, "instagram")))
		rows[1] = append(rows[1], spread(s.ratio("one_session", "gen_random_uuid", 0, "instagram")))
		if s.err != nil {
			return nil, s.err
		}
		for i, v := range r.Verdicts() {
			cell := spread(v.Got)
			if v.Target > 1000 { // not a ratio
				cell = display.Count(int(v.Got.Median))
			}
			if !v.Met() {
				cell += fmt.Sprintf(": misses the goal of %g", v.Target)
			}
			rows[i+2] = append(rows[i+2], cell)
		}
	}
	t := display.NewTable(headers...)
	t.AppendRows(rows)
	return t, nil
}

// xs are the values of what varies in a group, in its order.
func xs(r *bench.Report, group, name string) (all []int) {
	for _, g := range r.Groups {
		for _, s := range g.Series {
			if g.Name == group && s.Name == name {
				all = append(all, s.X)
			}
		}
	}
	return all
}

func sessions(f *figures) (table.Writer, error) {
	const group, own = "by_sessions", "next_id, a shard each"
	s := source{Report: f.growth}
	perSecond := func(name string, x int) string { return display.Count(int(s.series(group, name, x).Median)) }
	t := display.NewTable("sessions", "nextval, IDs/s", "instagram", "next_id", own, "next_id / instagram")
	for _, x := range xs(f.growth, group, "next_id") {
		t.AppendRow(table.Row{
			display.Count(x), perSecond("nextval", x), perSecond("instagram", x), perSecond("next_id", x),
			perSecond(own, x), spread(s.ratio(group, "next_id", x, "instagram")),
		})
	}
	return t, s.err
}

func batches(f *figures) (table.Writer, error) {
	const group = "by_batch"
	s := source{Report: f.growth}
	t := display.NewTable("IDs a call", "us an ID", "over next_id", "over nextval")
	for _, x := range xs(f.growth, group, "next_ids") {
		t.AppendRow(table.Row{
			display.Count(x), s.median(group, "next_ids", x),
			spread(s.ratio(group, "next_ids", x, "next_id")), spread(s.ratio(group, "next_ids", x, "nextval")),
		})
	}
	return t, s.err
}

func shards(f *figures) (table.Writer, error) {
	s := source{Report: f.growth}
	t := display.NewTable("shards", "an ID, us", "over Instagram", "first call, ms", "over Instagram", "created in, s", "size, MB")
	for _, x := range xs(f.growth, "shards_cost", "next_id") {
		t.AppendRow(table.Row{
			display.Count(x),
			s.median("shards_cost", "next_id", x), spread(s.ratio("shards_cost", "next_id", x, "instagram")),
			s.median("first_call", "next_id", x), spread(s.ratio("first_call", "next_id", x, "instagram")),
			s.median("shards_creation", "create_shards", x), s.median("shards_size", "database", x),
		})
	}
	return t, s.err
}

func keys(f *figures) (table.Writer, error) {
	s := source{Report: f.insert}
	t := display.NewTable("key", "time, s", "over identity", "index, MB", "over identity")
	for _, name := range []string{"identity", "next_id", "next_ids", "uuidv7", "gen_random_uuid"} {
		over := []string{"1", "1"}
		if name != "identity" {
			over[0] = spread(s.ratio("insert_time", name, 0, "identity"))
			over[1] = bench.Figure(s.ratio("insert_index", name, 0, "identity").Median)
		}
		t.AppendRow(table.Row{name, s.median("insert_time", name, 0), over[0], s.median("insert_index", name, 0), over[1]})
	}
	return t, s.err
}

// libraries has a row for each library: what an ID costs, and what it takes for long.
func libraries(f *figures) (table.Writer, error) {
	t := display.NewTable("ns an ID", "one caller", "all cores", "for long", "least that its format allows")
	names := []string{}
	medians := map[string]float64{}
	for _, r := range f.libraries {
		// Cost/pgid.Generator/single-2, without the number of cores
		name, _, _ := strings.Cut(r.name, "-")
		medians[name] = r.median("ns/op")
		if _, seen := medians[name+" limit"]; !seen {
			medians[name+" limit"] = r.median("limit-ns/ID")
		}
		if library, ok := strings.CutPrefix(name, "Cost/"); ok && strings.HasSuffix(library, "/single") {
			names = append(names, strings.TrimSuffix(library, "/single"))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("go.txt has no BenchmarkCost")
	}
	for _, name := range names {
		row := table.Row{strings.ReplaceAll(name, "_", " ")}
		for _, which := range []string{"Cost/" + name + "/single", "Cost/" + name + "/parallel", "ForLong/" + name + "/single"} {
			if medians[which] == 0 {
				return nil, fmt.Errorf("go.txt has no %s", which)
			}
			row = append(row, bench.Figure(medians[which]))
		}
		limit := "none"
		if least := medians["ForLong/"+name+"/single limit"]; least > 0 {
			limit = bench.Figure(least)
		}
		t.AppendRow(append(row, limit))
	}
	return t, nil
}
