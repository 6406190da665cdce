package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/nextid/postgres-ids/internal/display"
	"github.com/nextid/postgres-ids/pgid"
)

func (a *app) shard() *cobra.Command {
	create := &cobra.Command{
		Use:   "create SHARDS...",
		Short: "Create shards, as in 5 or 0-15 or 0-3,7",
		Long: `Create shards, the numbers 0 to 8191 of which each ID carries one. Shards that stand already stay
as they are, so an interrupted run is finished by running it again. Only the owner of the
schema pgid may create shards.`,
		Example: `  pgid shard create 5
  pgid shard create 0-15
  pgid shard create 0-3,7 100-199`,
		Annotations: map[string]string{takesNumbers: "yes"},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("name the shards to create, as in «%s 0-15»", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.createShards(cmd.Context(), numbers(args))
		},
	}
	list := &cobra.Command{
		Use:   "list",
		Short: "List the shards of the database",
		Long: `List the shards of the database: the last ID of each and its time, how far that is ahead of the
server's clock in milliseconds (negative: behind it), and how many IDs are left.`,
		Example: `  pgid shard list
  pgid shard list --json`,
		Args: cobra.NoArgs,
	}
	asJSON := list.Flags().Bool("json", false, "print one JSON object a line")
	list.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.listShards(cmd.Context(), *asJSON)
	}
	return group(&cobra.Command{
		Use:   "shard",
		Short: "Create and list shards",
		Example: `  pgid shard create 0-15
  pgid shard list`,
	}, create, list)
}

const needToOwn = "connect as the owner of the schema pgid"

// batchSize is how many shards one transaction creates: each holds locks on two
// sequences a shard until its end, and the lock table is finite.
const batchSize = 1000

func (a *app) createShards(ctx context.Context, args []string) error {
	ranges, err := parseRanges(args)
	if err != nil {
		return err
	}
	total := 0
	for _, r := range ranges {
		total += r.size()
	}
	return a.withConn(ctx, func(conn *pgx.Conn) error {
		if _, err := pgid.NewClient(conn).Settings(ctx); err != nil {
			return permissionError(err, needToOwn)
		}
		line := display.NewLine(a.progress())
		defer line.Clear()
		created, done := 0, 0
		for _, batch := range batches(ranges) {
			var n int
			err := conn.QueryRow(ctx, "SELECT pgid.create_shards($1::integer, $2::integer)", int32(batch.first), int32(batch.last)).Scan(&n)
			if err != nil {
				err = permissionError(err, needToOwn)
				if done > 0 {
					err = fmt.Errorf("shards up to %d stand, run it again for the rest: %w", batch.first-1, err)
				}
				return err
			}
			created += n
			done += batch.size()
			if done < total {
				line.Show("%d of %d shards", done, total)
			}
		}
		line.Clear()
		_, err := fmt.Fprintf(a.Stdout, "created %d, stood already %d\n", created, total-created)
		return err
	})
}

// batches cuts ranges into pieces of at most batchSize.
func batches(ranges []shardRange) []shardRange {
	var cut []shardRange
	for _, r := range ranges {
		for ; r.size() > batchSize; r.first += batchSize {
			cut = append(cut, shardRange{r.first, r.first + batchSize - 1})
		}
		cut = append(cut, r)
	}
	return cut
}

// shardStatus is a row of the view pgid.shard_status.
type shardStatus struct {
	Shard    pgid.Shard `json:"shard"`
	LastID   *pgid.ID   `json:"last_id"`
	LastTime *time.Time `json:"last_time"`
	LeadMS   *int64     `json:"lead_ms"`
	IDsLeft  *int64     `json:"ids_left"`
	Created  time.Time  `json:"created"`
	Retired  *time.Time `json:"retired"`
}

func (a *app) listShards(ctx context.Context, asJSON bool) error {
	return a.withConn(ctx, func(conn *pgx.Conn) error {
		if _, err := pgid.NewClient(conn).Settings(ctx); err != nil {
			return permissionError(err, needToOwn)
		}
		rows, err := conn.Query(ctx,
			"SELECT shard, last_id, last_time, lead_ms, ids_left, created, retired FROM pgid.shard_status ORDER BY shard")
		if err != nil {
			return permissionError(err, needToOwn)
		}
		shards, err := pgx.CollectRows(rows, pgx.RowToStructByPos[shardStatus])
		if err != nil {
			return permissionError(err, needToOwn)
		}
		if asJSON {
			return a.printShardsJSON(shards)
		}
		return a.printShards(shards)
	})
}

func (a *app) printShardsJSON(shards []shardStatus) error {
	out := json.NewEncoder(a.Stdout)
	for _, s := range shards {
		s.Created = s.Created.UTC()
		for _, t := range []*time.Time{s.LastTime, s.Retired} {
			if t != nil {
				*t = t.UTC()
			}
		}
		if err := out.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printShards(shards []shardStatus) error {
	if len(shards) == 0 {
		_, err := fmt.Fprintln(a.Stdout, "no shards yet: create some, as in «pgid shard create 0-15»")
		return err
	}
	t := display.NewTable("shard", "last ID", "last time", "lead ms", "IDs left", "created", "retired")
	for _, s := range shards {
		t.AppendRow(table.Row{
			int(s.Shard), orDash(s.LastID), timeOrDash(s.LastTime, display.TimeFormat), orDash(s.LeadMS), orDash(s.IDsLeft),
			s.Created.UTC().Format(time.DateOnly), timeOrDash(s.Retired, time.DateOnly),
		})
	}
	_, err := fmt.Fprintln(a.Stdout, t.Render())
	return err
}

func orDash[T any](v *T) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(*v)
}

func timeOrDash(t *time.Time, format string) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(format)
}
