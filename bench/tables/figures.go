package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/perf/benchfmt"

	"github.com/nextid/postgres-ids/internal/bench"
)

// figures are what make figures has measured.
type figures struct {
	calls          []*bench.Report // one for each version of PostgreSQL, ascending
	growth, insert *bench.Report   // of the newest version that has them
	libraries      []goResult      // in the order in which they ran
}

// A goResult is a Go benchmark: its values, ascending, by unit.
type goResult struct {
	name   string
	values map[string][]float64
}

func (r goResult) median(unit string) float64 {
	v := r.values[unit]
	if len(v) == 0 {
		return 0
	}
	return v[len(v)/2]
}

func read(dir string) (*figures, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	f := new(figures)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		r := new(bench.Report)
		if err := json.Unmarshal(text, r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		switch r.Benchmark {
		case "calls":
			f.calls = append(f.calls, r)
		case "growth":
			f.growth = newer(f.growth, r)
		case "insert":
			f.insert = newer(f.insert, r)
		default:
			return nil, fmt.Errorf("%s: the benchmark is %q", file, r.Benchmark)
		}
	}
	if len(f.calls) == 0 || f.growth == nil || f.insert == nil {
		return nil, fmt.Errorf("%s does not have all figures: make figures measures them", dir)
	}
	slices.SortFunc(f.calls, func(a, b *bench.Report) int { return a.Server.Number - b.Server.Number })
	f.libraries, err = readGo(filepath.Join(dir, "go.txt"))
	return f, err
}

func newer(a, b *bench.Report) *bench.Report {
	if a != nil && a.Server.Number > b.Server.Number {
		return a
	}
	return b
}

// readGo reads what go test -bench has printed, in several rounds.
func readGo(name string) (results []goResult, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	reader := benchfmt.NewReader(file, name)
	for reader.Scan() {
		line, ok := reader.Result().(*benchfmt.Result)
		if !ok {
			continue // the head of a round
		}
		full := string(line.Name.Full())
		at := slices.IndexFunc(results, func(r goResult) bool { return r.name == full })
		if at < 0 {
			at, results = len(results), append(results, goResult{full, map[string][]float64{}})
		}
		for _, v := range line.Values {
			value, unit := v.Value, v.Unit
			if v.OrigUnit != "" { // ns/op, say, which the package turns into sec/op
				value, unit = v.OrigValue, v.OrigUnit
			}
			results[at].values[unit] = append(results[at].values[unit], value)
		}
	}
	if err := reader.Err(); err != nil {
		return nil, err
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("%s has no results of go test -bench", name)
	}
	for _, r := range results {
		for _, v := range r.values {
			slices.Sort(v)
		}
	}
	return results, nil
}
