// Command chart draws what «pgid bench --json» has measured: an SVG for each group
// that compares something.
//
//	go run ./chart -in ../docs/performance/growth-18.json -out ../docs/performance
//
// growth-18.json becomes growth-18-by_sessions.svg and so on. The same input gives
// the same output, byte for byte.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nextid/postgres-ids/internal/bench"
)

func main() {
	in := flag.String("in", "", "the `file` that pgid bench --json wrote")
	out := flag.String("out", ".", "the `directory` for the charts")
	flag.Parse()
	if err := run(*in, *out); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(in, out string) error {
	if in == "" {
		return fmt.Errorf("name the file to draw, as in -in growth-18.json")
	}
	text, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	var report bench.Report
	if err := json.Unmarshal(text, &report); err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	base := strings.TrimSuffix(filepath.Base(in), filepath.Ext(in))
	for _, g := range report.Groups {
		if len(g.Series) < 2 {
			continue
		}
		svg, err := chart(&report, g)
		if err != nil {
			return fmt.Errorf("%s, group %s: %w", in, g.Name, err)
		}
		name := filepath.Join(out, base+"-"+g.Name+".svg")
		if err := os.WriteFile(name, svg, 0o644); err != nil {
			return err
		}
		fmt.Println(name)
	}
	return nil
}
