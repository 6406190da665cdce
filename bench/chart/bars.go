package main

import (
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/nextid/postgres-ids/internal/bench"
)

// errors along x, for horizontal bars.
type across struct {
	plotter.XYs
	plotter.XErrors
}

// bars adds a horizontal bar for each series, the first on top, with its value.
func bars(p *plot.Plot, g bench.Group) error {
	series := slices.Clone(g.Series)
	slices.Reverse(series)
	var (
		names   []string
		ends    across
		values  plotter.XYLabels
		highest float64
	)
	for i, s := range series {
		bar, err := plotter.NewBarChart(plotter.Values{s.Median}, vg.Points(15))
		if err != nil {
			return err
		}
		bar.Horizontal, bar.XMin = true, float64(i)
		bar.Color, bar.LineStyle.Width = colorOf(s.Name), 0
		p.Add(bar)
		names = append(names, s.Name)
		ends.XYs = append(ends.XYs, plotter.XY{X: s.Median, Y: float64(i)})
		ends.XErrors = append(ends.XErrors, struct{ Low, High float64 }{s.Median - s.Min, s.Max - s.Median})
		values.XYs = append(values.XYs, plotter.XY{X: s.Max, Y: float64(i)})
		values.Labels = append(values.Labels, bench.Figure(s.Median))
		highest = max(highest, s.Max)
	}
	spread, err := plotter.NewXErrorBars(ends)
	if err != nil {
		return err
	}
	spread.Width, spread.CapWidth = 0.8, 5
	labels, err := plotter.NewLabels(values)
	if err != nil {
		return err
	}
	labels.Offset = vg.Point{X: 6, Y: -3.5}
	for i := range labels.TextStyle {
		labels.TextStyle[i].Font.Size = 10
	}
	p.Add(spread, labels)
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(series))-0.4
	p.X.Min, p.X.Max = 0, highest*1.15 // room for the values
	p.X.Label.Text = scaleLabel(g)
	p.X.Tick.Marker = countTicks{}
	return nil
}
