package bench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/nextid/postgres-ids/internal/display"
)

// Text is the report as people read it.
func (r *Report) Text() string {
	var out strings.Builder
	rounds := "one round"
	if r.Parameters.Rounds > 1 {
		rounds = fmt.Sprintf("medians of %d rounds, with the least and the most of single rounds", r.Parameters.Rounds)
	}
	_, _ = fmt.Fprintf(&out, "PostgreSQL %s; %s\n", r.Server.Version, rounds)
	for _, g := range r.Groups {
		rendered := g.table()
		if g.grows() {
			rendered = g.growth()
		}
		_, _ = fmt.Fprintf(&out, "\n%s\n%s\n", g.Title, rendered)
		if g.Note != "" {
			_, _ = fmt.Fprintln(&out, g.Note)
		}
	}
	return out.String()
}

// grows reports whether each series of the group has several values of x.
func (g *Group) grows() bool {
	for _, s := range g.Series {
		if s.X == 0 {
			return false
		}
	}
	return len(g.xs()) > 1
}

// xs are the values of what varies, names the series, both in the order of the group.
func (g *Group) xs() []int       { return distinct(g.Series, func(s Series) int { return s.X }) }
func (g *Group) names() []string { return distinct(g.Series, func(s Series) string { return s.Name }) }

func distinct[T comparable](series []Series, of func(Series) T) []T {
	var all []T
	for _, s := range series {
		if v := of(s); !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}

// table has a row for each series.
func (g *Group) table() string {
	var bases []string
	for _, s := range g.Series {
		for base := range s.Ratios {
			if !slices.Contains(bases, base) {
				bases = append(bases, base)
			}
		}
	}
	slices.Sort(bases)
	headers := []any{""}
	if g.X != "" {
		headers = append(headers, g.X)
	}
	headers = append(headers, g.Unit, "least to most")
	for _, base := range bases {
		headers = append(headers, "over "+base)
	}
	t := newTable(headers)
	for _, s := range g.Series {
		row := table.Row{s.Name}
		switch {
		case s.X != 0:
			row = append(row, display.Count(s.X))
		case g.X != "":
			row = append(row, "-")
		}
		row = append(row, Figure(s.Median), Figure(s.Min)+" to "+Figure(s.Max))
		for _, base := range bases {
			row = append(row, ratioCell(s, base))
		}
		t.AppendRow(row)
	}
	return t.Render()
}

// growth has a row for each x, a column for each series' medians, and the ratio that
// matters most.
func (g *Group) growth() string {
	names := g.names()
	headers := []any{g.X}
	for _, name := range names {
		headers = append(headers, name+", "+g.Unit)
	}
	compares := slices.ContainsFunc(g.Series, func(s Series) bool { _, ok := s.Ratios[instagram]; return ok && s.Name == nextID })
	if compares {
		headers = append(headers, nextID+" over "+instagram)
	}
	t := newTable(headers)
	for _, x := range g.xs() {
		row := table.Row{display.Count(x)}
		ratio := ""
		for _, name := range names {
			cell := ""
			for _, s := range g.Series {
				if s.X == x && s.Name == name {
					cell = Figure(s.Median)
					if name == nextID {
						ratio = ratioCell(s, instagram)
					}
				}
			}
			row = append(row, cell)
		}
		if compares {
			row = append(row, ratio)
		}
		t.AppendRow(row)
	}
	return t.Render()
}

func ratioCell(s Series, base string) string {
	ratio, ok := s.Ratios[base]
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s (%s to %s)", Figure(ratio.Median), Figure(ratio.Min), Figure(ratio.Max))
}

// newTable is a table whose first column is text and whose others are numbers.
func newTable(headers []any) table.Writer {
	t := display.NewTable(headers...)
	numbers := make([]table.ColumnConfig, len(headers)-1)
	for i := range numbers {
		numbers[i] = table.ColumnConfig{Number: i + 2, Align: text.AlignRight}
	}
	t.SetColumnConfigs(numbers)
	return t
}

// Figure is a number with two or three digits that count, more where it is larger.
func Figure(v float64) string {
	switch {
	case v < 0.1:
		return strconv.FormatFloat(v, 'g', 2, 64)
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	default:
		return display.Count(int(math.Round(v)))
	}
}
