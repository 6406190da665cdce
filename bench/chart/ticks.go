package main

import (
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"

	"github.com/nextid/postgres-ids/internal/display"
)

// label is a number as an axis shows it.
func label(v float64) string {
	if v >= 1000 {
		return display.Count(int(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// valueTicks marks the values that were measured, ascending.
type valueTicks []float64

func (t valueTicks) Ticks(lowest, highest float64) []plot.Tick {
	const (
		axis  = 370.0 // points, about
		digit = 5.0
		gap   = 3.0
	)
	at := func(v float64) float64 { return axis * math.Log(v/lowest) / math.Log(highest/lowest) }
	if !isLog(lowest, highest) {
		at = func(v float64) float64 { return axis * (v - lowest) / (highest - lowest) }
	}
	ticks := make([]plot.Tick, len(t))
	free := math.Inf(1) // the end of what is not labelled yet
	for i, v := range slices.Backward(t) {
		ticks[i].Value = v
		text := label(v)
		half := digit * float64(len(text)) / 2
		if at(v)+half+gap <= free { // else it would lie on its neighbour
			ticks[i].Label = text
			free = at(v) - half
		}
	}
	return ticks
}

// isLog reports whether an axis of what varies is logarithmic.
func isLog(lowest, highest float64) bool { return highest/lowest >= 16 }

// countTicks is the usual ticks, labelled.
type countTicks struct{}

func (countTicks) Ticks(lowest, highest float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(lowest, highest)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = label(ticks[i].Value)
		}
	}
	return ticks
}

// ticks125 marks 1, 2 and 5 times the powers of ten, for a logarithmic axis.
type ticks125 struct{}

func (ticks125) Ticks(lowest, highest float64) []plot.Tick {
	var ticks []plot.Tick
	for v := lowest; v <= highest*1.001; v = ceil125(v * 1.01) {
		ticks = append(ticks, plot.Tick{Value: v, Label: label(v)})
	}
	return ticks
}

// ceil125 is the least of 1, 2 and 5 times a power of ten that is not below v, and
// floor125 the largest that is not above.
func ceil125(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v*0.999 {
			return m * power
		}
	}
	return 10 * power
}

func floor125(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{5, 2} {
		if m*power <= v*1.001 {
			return m * power
		}
	}
	return power
}
