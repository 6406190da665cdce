package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nextid/postgres-ids/internal/bench"
)

func report() *bench.Report {
	spread := func(v float64) bench.Spread { return bench.Spread{Median: v, Min: v * 0.9, Max: v * 1.2} }
	growth := bench.Group{Name: "by_batch", Title: "Batches", Unit: "us/ID", Better: "less", X: "IDs a call"}
	growth.Series = append(growth.Series, bench.Series{Name: "nextval", Spread: spread(0.4)})
	for i, x := range []int{1, 10, 100, 1000, 10_000, 50_000, 100_000} {
		growth.Series = append(growth.Series, bench.Series{Name: "next_ids", X: x, Spread: spread(24 / float64(i+1))})
	}
	return &bench.Report{
		Benchmark: "growth", Server: bench.Server{Version: "18.1 (Debian)"}, Client: bench.Client{CPUs: 2},
		Parameters: bench.Parameters{Rounds: 9},
		Groups: []bench.Group{growth,
			{Name: "one", Title: "Bars", Unit: "IDs/s", Better: "more", Series: []bench.Series{
				{Name: "next_id", Spread: spread(500_000)}, {Name: "instagram", Spread: spread(250_000)},
			}},
			{Name: "alone", Title: "Nothing to compare", Series: []bench.Series{{Name: "next_id", Spread: spread(1)}}},
		},
	}
}

func TestCharts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := filepath.Join(dir, "growth-18.json")
	text, err := json.Marshal(report())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run(in, dir); err != nil {
		t.Fatal(err)
	}
	for name, parts := range map[string][]string{
		"growth-18-by_batch.svg": {"Batches", "IDs a call", "µs/ID (less is better)", "next_ids", ">100,000<", "PostgreSQL 18.1, 2 CPUs; medians of 9 rounds"},
		"growth-18-one.svg":      {"Bars", "IDs/s (more is better)", "next_id", "500,000"},
	} {
		svg, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, part := range parts {
			if !strings.Contains(string(svg), part) {
				t.Errorf("%s lacks %q", name, part)
			}
		}
		if strings.Contains(string(svg), ">50,000<") {
			t.Errorf("%s: 50,000 lies on 100,000", name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "growth-18-alone.svg")); err == nil {
		t.Error("a chart of a single value")
	}
}

func TestSameInputSameOutput(t *testing.T) {
	t.Parallel()
	r := report()
	for _, g := range r.Groups[:2] {
		first, err := chart(r, g)
		if err != nil {
			t.Fatal(err)
		}
		again, err := chart(r, g)
		if err != nil || !bytes.Equal(first, again) {
			t.Errorf("%s: two drawings differ (%v)", g.Name, err)
		}
	}
}

func TestTicks125(t *testing.T) {
	t.Parallel()
	var labels []string
	for _, tick := range (ticks125{}).Ticks(floor125(0.3), ceil125(1300)) {
		labels = append(labels, tick.Label)
	}
	if got, want := strings.Join(labels, " "), "0.2 0.5 1 2 5 10 20 50 100 200 500 1,000 2,000"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.json")
	if err := os.WriteFile(broken, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	for in, says := range map[string]string{"": "-in", broken: "broken.json", filepath.Join(dir, "none.json"): "none.json"} {
		if err := run(in, dir); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: error %v, want one that says %q", in, err, says)
		}
	}
}
