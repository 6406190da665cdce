package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nextid/postgres-ids/internal/bench"
	"github.com/nextid/postgres-ids/internal/display"
	"github.com/nextid/postgres-ids/internal/tempdb"
	"github.com/nextid/postgres-ids/pgid"
)

const benchServer = `

It works in a temporary database, removed at the end, on the server of --database-url or
PGID_DATABASE_URL, where the role needs CREATEDB. Without either, a throwaway server is started
on this machine, which keeps nothing on disk for sure (fsync off). DATABASE_URL and the PG*
variables are not used. Ratios carry over to another machine, absolute figures do not.`

func (a *app) bench() *cobra.Command {
	calls := a.benchmark(bench.Calls, &cobra.Command{
		Use:   "bench",
		Short: "Measure it beside nextval, Instagram's function and UUIDs",
		Long: `Measure what an ID costs beside its peers, in turn: in one session, in many, in INSERT ... SELECT,
in ranges, in the first call of a new session, and from Go. It takes some minutes.` + benchServer,
		Example: `  pgid bench
  pgid bench --rounds 3 --json
  pgid bench insert --rows 100000
  pgid bench growth`,
	}, rounds(9), ids, sessions(16))
	run := calls.RunE
	group(calls,
		a.benchmark(bench.Insert, &cobra.Command{
			Use:   "insert",
			Short: "Insert many rows with each kind of primary key: time and size",
			Long: `Insert many rows with each kind of primary key, and measure the time, the size of the index and the
size of the table.` + benchServer,
			Example: `  pgid bench insert
  pgid bench insert --rows 100000 --rounds 1`,
		}, rounds(3), rows),
		a.benchmark(bench.Growth, &cobra.Command{
			Use:   "growth",
			Short: "Measure how cost grows: sessions, batches, shards",
			Long: `Measure how cost grows with the sessions at once, with the IDs of a batch, and with the shards of a
database: creation, size, the cost of an ID and of the first call. It takes some minutes.` + benchServer,
			Example: `  pgid bench growth
  pgid bench growth --shards 256 --sessions 16 --json`,
		}, rounds(5), ids, sessions(64), shards))
	calls.RunE = run
	return calls
}

// A benchFlag is a flag that says how much to measure.
type benchFlag struct {
	name  string
	value int // where nothing is given
	max   int
	usage string
	to    func(*bench.Parameters) *int
}

func rounds(n int) benchFlag {
	return benchFlag{"rounds", n, 1000, "how often to measure each, in turn", func(p *bench.Parameters) *int { return &p.Rounds }}
}

func sessions(n int) benchFlag {
	return benchFlag{"sessions", n, 1000, "how many sessions at once, at most", func(p *bench.Parameters) *int { return &p.Sessions }}
}

var (
	ids    = benchFlag{"ids", 200_000, 100_000_000, "how many IDs a measurement draws", func(p *bench.Parameters) *int { return &p.IDs }}
	rows   = benchFlag{"rows", 1_000_000, 1_000_000_000, "how many rows to insert", func(p *bench.Parameters) *int { return &p.Rows }}
	shards = benchFlag{"shards", int(pgid.MaxShard) + 1, int(pgid.MaxShard) + 1, "how many shards, at most", func(p *bench.Parameters) *int { return &p.Shards }}
)

type benchmarkFunc func(ctx context.Context, url string, opts bench.Options) (*bench.Report, error)

// benchmark completes a command that runs a benchmark.
func (a *app) benchmark(measure benchmarkFunc, cmd *cobra.Command, flags ...benchFlag) *cobra.Command {
	var given bench.Parameters
	for _, f := range flags {
		cmd.Flags().IntVar(f.to(&given), f.name, f.value, f.usage)
	}
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("%q is one word too many: see «%s --help»", args[0], cmd.CommandPath())
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, f := range flags {
			if n := *f.to(&given); n < 1 || n > f.max {
				return fmt.Errorf("--%s %d is out of range: use 1 to %d", f.name, n, f.max)
			}
		}
		report, err := a.measure(cmd.Context(), measure, given)
		if err != nil {
			return err
		}
		if *asJSON {
			out := json.NewEncoder(a.Stdout)
			out.SetIndent("", "  ")
			return out.Encode(report)
		}
		_, err = fmt.Fprint(a.Stdout, report.Text())
		return err
	}
	return cmd
}

// measure runs a benchmark in a database of its own.
func (a *app) measure(ctx context.Context, measure benchmarkFunc, given bench.Parameters) (report *bench.Report, err error) {
	server, err := a.ownServer()
	if err != nil {
		return nil, err
	}
	line := display.NewLine(a.progress())
	db, err := tempdb.Open(ctx, server, "bench", line)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close(ctx)) }()
	return measure(ctx, db.URL, bench.Options{Parameters: given, Progress: line})
}
