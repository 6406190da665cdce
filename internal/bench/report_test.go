package bench

import (
	"strings"
	"testing"
)

// A series compares with the base of its own x, else with the one that has none.
func TestFill(t *testing.T) {
	t.Parallel()
	g := Group{Name: "g", Title: "G", Unit: "us/ID", X: "shards"}
	g.fill([]trial{{name: "a", x: 1}, {name: "b", x: 1}, {name: "a", x: 2}, {name: "b", x: 2}, {name: "all"}},
		[][]float64{{10}, {5}, {20}, {5}, {2}}, "a", "all", "absent")
	r := &Report{Parameters: Parameters{Rounds: 1}}
	r.add(g)
	for _, want := range []struct {
		name  string
		x     int
		base  string
		ratio float64
	}{{"b", 1, "a", 0.5}, {"b", 2, "a", 0.25}, {"b", 2, "all", 2.5}, {"a", 1, "all", 5}} {
		if got := r.Find("g", want.name, want.x).Ratios[want.base].Median; got != want.ratio {
			t.Errorf("%s at %d over %s: %v, want %v", want.name, want.x, want.base, got, want.ratio)
		}
	}
	for _, s := range r.Groups[0].Series {
		if _, itself := s.Ratios[s.Name]; itself || len(s.Ratios) > 2 {
			t.Errorf("%s has ratios %v", s.Name, s.Ratios)
		}
	}
	if r.Find("g", "b", 3) != nil || r.Find("h", "b", 1) != nil {
		t.Error("found what is not there")
	}
	more := Group{Name: "g"}
	more.fill([]trial{{name: "c", x: 3}}, [][]float64{{1}})
	r.add(more)
	if len(r.Groups) != 1 || r.Find("g", "c", 3) == nil {
		t.Errorf("series of the same group stand apart: %+v", r.Groups)
	}
	for _, part := range []string{"G\n", "over a", "0.25 (0.25 to 0.25)"} {
		if !strings.Contains(r.Text(), part) {
			t.Errorf("the text lacks %q:\n%s", part, r.Text())
		}
	}
}

func TestFigure(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 0.00021: "0.00021", 0.044: "0.044", 0.5: "0.50", 9.876: "9.88", 12.34: "12.3", 123.4: "123", 1234567.8: "1,234,568",
	} {
		if got := Figure(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

func TestUpTo(t *testing.T) {
	t.Parallel()
	for largest, want := range map[int]int{1: 1, 2: 2, 20: 3, 16: 2, 8192: 4} {
		got := upTo(largest, 1, 16, 256, 8192)
		if len(got) != want || got[len(got)-1] != largest {
			t.Errorf("up to %d: %v", largest, got)
		}
	}
}
