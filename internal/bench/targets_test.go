package bench

import (
	"strings"
	"testing"
)

func TestVerdictMet(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		v    Verdict
		want bool
	}{
		{"at most, below", Verdict{Got: Spread{Median: 0.5}, Target: 0.55, AtMost: true}, true},
		{"at most, above", Verdict{Got: Spread{Median: 0.56}, Target: 0.55, AtMost: true}, false},
		{"at least, above", Verdict{Got: Spread{Median: 1.3}, Target: 1.2}, true},
		{"at least, below", Verdict{Got: Spread{Median: 1.1}, Target: 1.2}, false},
		{"not measured, at most", Verdict{Target: 1, AtMost: true}, false},
		{"not measured, at least", Verdict{Target: 1}, false},
	}
	for _, test := range tests {
		if got := test.v.Met(); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}

// What one_session and many_sessions have to meet depends on the version.
func TestVerdictsOfAVersion(t *testing.T) {
	t.Parallel()
	report := func(number int) *Report {
		r := &Report{Server: Server{Number: number}, Parameters: Parameters{Sessions: 16}}
		trials := []trial{{name: instagram}, {name: nextID}}
		for name, values := range map[string][][]float64{
			"one_session":   {{1, 2, 1}, {0.9, 1.8, 0.9}},
			"many_sessions": {{100, 200, 100}, {95, 190, 95}},
		} {
			g := Group{Name: name}
			g.fill(trials, values, instagram)
			r.add(g)
		}
		return r
	}
	for number, met := range map[int]int{180000: 0, 190000: 2} {
		r := report(number)
		got := 0
		for _, v := range r.Verdicts() {
			if v.Met() {
				got++
			}
		}
		if got != met {
			t.Errorf("server %d: %d targets met, want %d\n%s", number, got, met, r.VerdictsText())
		}
		if n := strings.Count(r.VerdictsText(), "MISSED"); n != len(r.Verdicts())-met {
			t.Errorf("server %d: %d marked MISSED, want %d", number, n, len(r.Verdicts())-met)
		}
	}
}
