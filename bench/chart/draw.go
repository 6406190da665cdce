package main

import (
	"bytes"
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/nextid/postgres-ids/internal/bench"
)

const (
	width       = 8.5 * vg.Inch
	lineHeight  = 4.6 * vg.Inch
	legendWidth = 2.1 * vg.Inch
	margin      = 10 // points
	footer      = 18
)

// chart draws one group: bars where nothing varies, else lines over what does.
func chart(r *bench.Report, g bench.Group) ([]byte, error) {
	p := plot.New()
	p.Title.Text = g.Title
	p.Title.TextStyle.Font.Size = 13
	p.Title.Padding = 10
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font.Size = 11
		axis.Tick.Label.Font.Size = 10
		axis.Label.Padding = 6
	}
	height := vg.Length(lineHeight)
	var legend *plot.Legend
	var err error
	if varies(g) {
		legend, err = lines(p, g)
	} else {
		height = (1.7 + 0.36*vg.Length(len(g.Series))) * vg.Inch
		err = bars(p, g)
	}
	if err != nil {
		return nil, err
	}

	canvas := vgsvg.New(width, height)
	page := draw.New(canvas)
	page.SetColor(color.White)
	page.Fill(page.Path())
	small := p.X.Tick.Label
	small.Font.Size, small.Color, small.XAlign, small.YAlign = 9, color.Gray{0x60}, draw.XLeft, draw.YBottom
	page.FillText(small, vg.Point{X: margin, Y: margin}, source(r, g))
	area := draw.Crop(page, margin, -margin, margin+footer, -margin)
	if legend != nil {
		// Beside the plot: inside, it would lie on a line sooner or later.
		plotArea := draw.Crop(area, 0, -legendWidth, 0, 0)
		p.Draw(plotArea)
		legend.Draw(draw.Crop(area, width-2*margin-legendWidth+12, 0, 0, -50))
	} else {
		p.Draw(area)
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, err
	}
	// Where the font is missing, one of the same widths, or at least without serifs.
	return bytes.ReplaceAll(out.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")), nil
}

// source says where the figures are from.
func source(r *bench.Report, g bench.Group) string {
	version, _, _ := strings.Cut(r.Server.Version, " ")
	once := !slices.ContainsFunc(g.Series, func(s bench.Series) bool { return s.Min < s.Max })
	text := fmt.Sprintf("PostgreSQL %s, %d CPUs", version, r.Client.CPUs)
	if once {
		return text
	}
	return fmt.Sprintf("%s; medians of %d rounds, whiskers from the least to the most", text, r.Parameters.Rounds)
}

// varies reports whether the group has series over several values of x.
func varies(g bench.Group) bool {
	seen := map[int]bool{}
	for _, s := range g.Series {
		seen[s.X] = true
	}
	return len(seen) > 1
}

// scaleLabel names an axis of values: their unit, and which way is good.
func scaleLabel(g bench.Group) string {
	unit := g.Unit
	if rest, ok := strings.CutPrefix(unit, "us"); ok {
		unit = "µs" + rest
	}
	return fmt.Sprintf("%s (%s is better)", unit, g.Better)
}

func init() {
	sans := font.Font{Typeface: "Liberation", Variant: "Sans"}
	plot.DefaultFont, plotter.DefaultFont = sans, sans
}

// Each thing has its colour in every chart.
var colors = map[string]color.RGBA{
	"next_id":               {0x1f, 0x5f, 0xbf, 0xff},
	"next_id, a shard each": {0x6b, 0xae, 0xe8, 0xff},
	"next_ids":              {0x0b, 0x8a, 0x6a, 0xff},
	"instagram":             {0xd9, 0x5f, 0x02, 0xff},
	"nextval":               {0x70, 0x70, 0x70, 0xff},
	"identity":              {0x70, 0x70, 0x70, 0xff},
	"the query alone":       {0xb8, 0xb8, 0xb8, 0xff},
	"gen_random_uuid":       {0x8e, 0x44, 0xad, 0xff},
	"uuidv7":                {0xc2, 0x6f, 0xb5, 0xff},
	"its catalog":           {0xd9, 0x5f, 0x02, 0xff},
}

func colorOf(name string) color.Color {
	if c, ok := colors[name]; ok {
		return c
	}
	return color.RGBA{0x1f, 0x5f, 0xbf, 0xff}
}
