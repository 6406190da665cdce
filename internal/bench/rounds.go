package bench

import (
	"context"
	"slices"
	"strconv"
)

// A trial is one thing to measure.
type trial struct {
	name string
	x    int // the value of what varies within a group; 0 if nothing does
	run  func(context.Context) (float64, error)
}

// inTurn measures every trial once a round, rounds times, after a round that warms
// up and does not count. Trials of one round are neighbours in time and share the
// machine's noise. Each round starts with another trial, so that none always follows
// the same one. The result is [trial][round].
func inTurn(ctx context.Context, rounds int, trials []trial, announce func(round int, name string)) ([][]float64, error) {
	values := make([][]float64, len(trials))
	for round := range rounds + 1 {
		for i := range trials {
			at := (round + i) % len(trials)
			announce(round, trials[at].name)
			v, err := trials[at].run(ctx)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				values[at] = append(values[at], v)
			}
		}
	}
	return values, nil
}

// A Spread is the median of some values, the least and the most.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// spreadOf returns the spread of one value or more, in six digits: more say nothing.
func spreadOf(values []float64) Spread {
	return Spread{rounded(median(values)), rounded(slices.Min(values)), rounded(slices.Max(values))}
}

func rounded(v float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	if err != nil {
		return v
	}
	return short
}

// ratioOf is the spread of the ratios, round by round, of values to a base: noise
// that both share in a round cancels out.
func ratioOf(values, base []float64) Spread {
	ratios := make([]float64, len(values))
	for i := range ratios {
		ratios[i] = values[i] / base[i]
	}
	return spreadOf(ratios)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}
