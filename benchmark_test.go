package postgresids_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nextid/postgres-ids/internal/bench"
	"github.com/nextid/postgres-ids/internal/pgtest"
)

// BenchmarkTargets measures pgid beside its peers, and holds the ratios against what
// the project promises. It does not fail where one is missed: a busy machine is no
// fault, and the table says so.
//
//	make bench
func BenchmarkTargets(b *testing.B) {
	report := measure(b, bench.Targets, bench.Parameters{Rounds: 9, IDs: 200_000, Sessions: 16})
	fmt.Printf("\n%s\n%s\n", report.Text(), report.VerdictsText())
	for _, v := range report.Verdicts() {
		b.ReportMetric(v.Got.Median, strings.NewReplacer(" / ", "/", ", ", ":", " ", "_").Replace(v.What))
	}
}

// BenchmarkInsert and BenchmarkGrowth measure the rest of what docs/performance shows.
//
//	make figures
func BenchmarkInsert(b *testing.B) {
	report := measure(b, bench.Insert, bench.Parameters{Rounds: 3, Rows: 1_000_000})
	fmt.Printf("\n%s\n", report.Text())
}

func BenchmarkGrowth(b *testing.B) {
	report := measure(b, bench.Growth, bench.Parameters{Rounds: 5, IDs: 200_000, Sessions: 64, Shards: 8192})
	fmt.Printf("\n%s\n", report.Text())
}

// measure runs a benchmark on a test's database. Where PGID_BENCH_JSON names a
// directory, it writes the report there, as calls-18.json for example.
func measure(
	b *testing.B, run func(context.Context, string, bench.Options) (*bench.Report, error), parameters bench.Parameters,
) *bench.Report {
	b.Helper()
	b.ReportMetric(0, "ns/op") // one op is a whole run: its time says nothing
	report, err := run(b.Context(), pgtest.NewEmpty(b).URL, bench.Options{Parameters: parameters})
	if err != nil {
		b.Fatal(err)
	}
	if dir := os.Getenv("PGID_BENCH_JSON"); dir != "" {
		text, err := json.MarshalIndent(report, "", "  ")
		if err == nil {
			name := fmt.Sprintf("%s-%d.json", report.Benchmark, report.Server.Number/10000)
			err = os.WriteFile(filepath.Join(dir, name), append(text, '\n'), 0o644)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	return report
}
