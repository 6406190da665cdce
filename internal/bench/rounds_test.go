package bench

import (
	"context"
	"errors"
	"slices"
	"testing"
)

func TestInTurn(t *testing.T) {
	t.Parallel()
	var order []string
	calls := map[string]float64{}
	trials := make([]trial, 3)
	for i, name := range []string{"a", "b", "c"} {
		trials[i] = trial{name: name, run: func(context.Context) (float64, error) {
			order = append(order, name)
			calls[name]++
			return calls[name]*10 + float64(i), nil
		}}
	}
	announced := 0
	values, err := inTurn(t.Context(), 2, trials, func(int, string) { announced++ })
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "c", "b", "c", "a", "c", "a", "b"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if announced != 9 {
		t.Errorf("%d announced, want 9", announced)
	}
	// The first call of each is the warm-up.
	for i, want := range [][]float64{{20, 30}, {21, 31}, {22, 32}} {
		if !slices.Equal(values[i], want) {
			t.Errorf("trial %d: %v, want %v", i, values[i], want)
		}
	}
}

func TestInTurnEndsWithAnError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	calls := 0
	_, err := inTurn(t.Context(), 5, []trial{{run: func(context.Context) (float64, error) {
		calls++
		return 0, broken
	}}}, func(int, string) {})
	if !errors.Is(err, broken) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		values []float64
		want   Spread
	}{
		{"one", []float64{7}, Spread{7, 7, 7}},
		{"odd", []float64{9, 1, 5}, Spread{5, 1, 9}},
		{"even", []float64{4, 1, 2, 9}, Spread{3, 1, 9}},
		{"six digits", []float64{1234567.8, 0.000012345678}, Spread{617284, 0.0000123457, 1234570}},
	}
	for _, test := range tests {
		before := slices.Clone(test.values)
		if got := spreadOf(test.values); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
		if !slices.Equal(test.values, before) {
			t.Errorf("%s: the values were reordered", test.name)
		}
	}
}

// A machine that slows down threefold in one round changes no ratio.
func TestRatioCancelsSharedNoise(t *testing.T) {
	t.Parallel()
	if got, want := ratioOf([]float64{2, 6, 2}, []float64{4, 12, 4}), (Spread{0.5, 0.5, 0.5}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := ratioOf([]float64{2, 3, 8}, []float64{2, 2, 2}), (Spread{1.5, 1, 4}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}
