package main

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/nextid/postgres-ids/internal/bench"
)

// points are a line with, for each point, the way to its least and its most.
type points struct {
	plotter.XYs
	plotter.YErrors
}

// lines adds a line for each name, over x; a name without x is a level, dashed.
func lines(p *plot.Plot, g bench.Group) (*plot.Legend, error) {
	byName, names := map[string]*points{}, []string{}
	var xs []float64
	lowest, highest := math.Inf(1), 0.0
	for _, s := range g.Series {
		if byName[s.Name] == nil {
			byName[s.Name] = &points{}
			names = append(names, s.Name)
		}
		line := byName[s.Name]
		line.XYs = append(line.XYs, plotter.XY{X: float64(s.X), Y: s.Median})
		line.YErrors = append(line.YErrors, struct{ Low, High float64 }{s.Median - s.Min, s.Max - s.Median})
		if x := float64(s.X); x > 0 && !slices.Contains(xs, x) {
			xs = append(xs, x)
		}
		lowest, highest = min(lowest, s.Min), max(highest, s.Max)
	}
	slices.Sort(xs)
	first, last := xs[0], xs[len(xs)-1]

	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	legend.TextStyle.Font.Size = 10
	legend.Padding = 4
	legend.ThumbnailWidth = 24
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xd8}, color.Gray{0xd8}
	p.Add(grid)
	for _, name := range names {
		pts := byName[name]
		if len(pts.XYs) == 1 && pts.XYs[0].X == 0 {
			level, err := plotter.NewLine(plotter.XYs{{X: first, Y: pts.XYs[0].Y}, {X: last, Y: pts.XYs[0].Y}})
			if err != nil {
				return nil, err
			}
			level.Color, level.Width = colorOf(name), 1.5
			level.Dashes = []vg.Length{5, 4}
			p.Add(level)
			legend.Add(name, level)
			continue
		}
		line, dots, err := plotter.NewLinePoints(pts.XYs)
		if err != nil {
			return nil, err
		}
		spread, err := plotter.NewYErrorBars(pts)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = colorOf(name), 2
		dots.Color, dots.Shape, dots.Radius = colorOf(name), draw.CircleGlyph{}, 2.8
		spread.Color, spread.Width, spread.CapWidth = colorOf(name), 0.8, 5
		p.Add(spread, line, dots)
		legend.Add(name, line, dots)
	}

	p.X.Label.Text, p.Y.Label.Text = g.X, scaleLabel(g)
	p.X.Min, p.X.Max = first, last
	p.X.Tick.Marker = valueTicks(xs)
	if isLog(first, last) {
		p.X.Scale = plot.LogScale{}
	}
	if lowest > 0 && highest/lowest >= 30 {
		p.Y.Scale = plot.LogScale{}
		p.Y.Min, p.Y.Max = floor125(lowest), ceil125(highest)
		p.Y.Tick.Marker = ticks125{}
	} else {
		p.Y.Min, p.Y.Max = 0, highest*1.05
		p.Y.Tick.Marker = countTicks{}
	}
	return &legend, nil
}
