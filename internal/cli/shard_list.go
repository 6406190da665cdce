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

func (a *app) shardList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the shards of the database",
		Long: `List the shards of the database: the state of each, active or retired; its last ID and the time of
that, how far it is ahead of the server's clock in milliseconds (negative: behind it), how many IDs
are left, and the pool of leases that it is set apart for.`,
		Example: `  pgid shard list
  pgid shard list --json`,
		Args: none,
	}
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object a line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.listShards(cmd.Context(), *asJSON)
	}
	return cmd
}

// shardStatus is a row of the view pgid.shard_status, and the state that it tells of.
type shardStatus struct {
	Shard    pgid.Shard `json:"shard"`
	State    string     `json:"state"` // active or retired
	LastID   *pgid.ID   `json:"last_id"`
	LastTime *time.Time `json:"last_time"`
	LeadMS   *int64     `json:"lead_ms"`
	IDsLeft  *int64     `json:"ids_left"`
	Created  time.Time  `json:"created"`
	Retired  *time.Time `json:"retired"`
	Pool     *string    `json:"pool"`
}

// A retirement that was rolled back holds all the same, without its time.
const shardStatusQuery = `
SELECT shard,
       CASE WHEN retired IS NOT NULL OR pgid.base(shard) >= pgid.retiring_base() THEN 'retired' ELSE 'active' END,
       last_id, last_time, lead_ms, ids_left, created, retired, pool
  FROM pgid.shard_status
 ORDER BY shard`

func (a *app) listShards(ctx context.Context, asJSON bool) error {
	shards, err := listRows[shardStatus](ctx, a, shardStatusQuery)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printShardsJSON(shards)
	}
	return a.printShards(shards)
}

// listRows collects the rows of a query that the owner may make.
func listRows[T any](ctx context.Context, a *app, query string) (list []T, err error) {
	err = a.withConn(ctx, func(conn *pgx.Conn) error {
		if _, err := lifeSettings(ctx, conn); err != nil {
			return err
		}
		rows, err := conn.Query(ctx, query)
		if err != nil {
			return permissionError(err, needToOwn)
		}
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[T])
		return permissionError(err, needToOwn)
	})
	return list, err
}

func (a *app) printShardsJSON(shards []shardStatus) error {
	out := json.NewEncoder(a.Stdout)
	for _, s := range shards {
		s.Created = s.Created.UTC()
		inUTC(s.LastTime, s.Retired)
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
	t := display.NewTable("shard", "state", "last ID", "last time", "lead ms", "IDs left", "created", "retired", "pool")
	for _, s := range shards {
		t.AppendRow(table.Row{
			int(s.Shard), s.State, orDash(s.LastID), timeOrDash(s.LastTime, display.TimeFormat), orDash(s.LeadMS), orDash(s.IDsLeft),
			s.Created.UTC().Format(time.DateOnly), timeOrDash(s.Retired, time.DateOnly), harmless(orDash(s.Pool)),
		})
	}
	_, err := fmt.Fprintln(a.Stdout, t.Render())
	return err
}

// inUTC turns the times that there are to UTC.
func inUTC(times ...*time.Time) {
	for _, t := range times {
		if t != nil {
			*t = t.UTC()
		}
	}
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
