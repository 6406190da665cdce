package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/nextid/postgres-ids/internal/display"
	"github.com/nextid/postgres-ids/pgid"
)

func (a *app) pool() *cobra.Command {
	create := &cobra.Command{
		Use:   "create NAME SHARDS...",
		Short: "Set shards apart for leases, and create those that do not exist",
		Long: `Set shards apart for leases, in a pool: a process that makes IDs by itself leases any free shard
of it. Shards that do not exist are created; those in the pool already stay as they are, so an
interrupted run is finished by running it again. A lease puts its shard ahead of the clock, and
next_id refuses (ID001) meanwhile: give a pool shards of its own.`,
		Example: `  pgid pool create workers 100-115
  pgid pool create batch 200,202 300-309`,
		Annotations: map[string]string{takesNumbers: "yes"},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 || args[0] == "" {
				return fmt.Errorf("name the pool and its shards, as in «%s workers 100-115»", cmd.CommandPath())
			}
			return nil
		},
	}
	yes := create.Flags().Bool("yes", false, "add also shards that have issued IDs by next_id")
	create.RunE = func(cmd *cobra.Command, args []string) error {
		args = numbers(args)
		return a.createPool(cmd.Context(), args[0], args[1:], *yes)
	}
	list := &cobra.Command{
		Use:   "list",
		Short: "List the shards of pools, and who holds them",
		Long: `List the shards that are set apart for leases: the pool, the state, the holder, the fence (the number
of the grant), and the end of the window granted last. The states are held; released: given back,
but its window is not over; expired: its window is over, anybody may have it; free; retired.`,
		Example: `  pgid pool list
  pgid pool list --json`,
		Args: none,
	}
	asJSON := list.Flags().Bool("json", false, "print one JSON object a line")
	list.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.listPools(cmd.Context(), *asJSON)
	}
	return group(&cobra.Command{
		Use:   "pool",
		Short: "Set shards apart for leases, and see who holds them",
		Example: `  pgid pool create workers 100-115
  pgid pool list`,
	}, create, list)
}

func (a *app) createPool(ctx context.Context, pool string, args []string, yes bool) error {
	ranges, err := parseRanges(args)
	if err != nil {
		return err
	}
	return a.withConn(ctx, func(conn *pgx.Conn) error {
		if _, err := lifeSettings(ctx, conn); err != nil {
			return err
		}
		if err := requirePool(ctx, conn, pool, ranges); err != nil {
			return err
		}
		if !yes {
			if err := requireUndrawn(ctx, conn, pool, ranges); err != nil {
				return err
			}
		}
		added, err := a.inBatches(ranges, "are in the pool", func(batch shardRange) (n int, err error) {
			err = conn.QueryRow(ctx, "SELECT pgid.create_pool($1::text, $2::integer, $3::integer)", pool, int32(batch.first), int32(batch.last)).Scan(&n)
			return n, err
		})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.Stdout, "pool %s: added %d, in it already %d\n", harmless(pool), added, size(ranges)-added)
		return err
	})
}

// requirePool refuses shards that are retired or in another pool, before any is touched.
func requirePool(ctx context.Context, conn *pgx.Conn, pool string, ranges []shardRange) error {
	for _, r := range ranges {
		var shard pgid.Shard
		var other *string
		err := conn.QueryRow(ctx, `SELECT s.shard, l.pool
			  FROM pgid.shard AS s LEFT JOIN pgid.lease AS l ON l.shard = s.shard
			 WHERE s.shard BETWEEN $1::integer AND $2::integer
			   AND (l.pool <> $3::text OR s.retired IS NOT NULL OR pgid.base(s.shard) >= pgid.retiring_base())
			 ORDER BY s.shard LIMIT 1`, int32(r.first), int32(r.last), pool).Scan(&shard, &other)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
		case err != nil:
			return permissionError(err, needToOwn)
		case other != nil && *other != pool:
			return fmt.Errorf("shard %d belongs to the pool %s: nothing was added to the pool %s", shard, *other, pool)
		default:
			return fmt.Errorf("shard %d is retired: nothing was added to the pool %s", shard, pool)
		}
	}
	return nil
}

// requireUndrawn refuses shards that next_id draws from, unless they are in the pool.
func requireUndrawn(ctx context.Context, conn *pgx.Conn, pool string, ranges []shardRange) error {
	drawn, err := firstShard(ctx, conn, ranges, "pgid.drawn(n) > 0 AND NOT EXISTS (SELECT FROM pgid.lease AS l WHERE l.shard = n)")
	if err == nil && drawn != nil {
		err = fmt.Errorf("shard %d has issued IDs by next_id, which is refused (ID001) while a lease is ahead of the clock:"+
			" give the pool %s shards of its own, or add --yes", *drawn, pool)
	}
	return err
}

// leaseStatus is a row of the view pgid.lease_status.
type leaseStatus struct {
	Shard      pgid.Shard `json:"shard"`
	Pool       string     `json:"pool"`
	State      string     `json:"state"`
	Holder     *string    `json:"holder"`
	Fence      *int64     `json:"fence"`
	LeaseFrom  *time.Time `json:"lease_from"`
	LeaseUntil *time.Time `json:"lease_until"`
	Granted    *time.Time `json:"granted"`
	Renewed    *time.Time `json:"renewed"`
}

func (a *app) listPools(ctx context.Context, asJSON bool) error {
	leases, err := listRows[leaseStatus](ctx, a, `
		SELECT shard, pool, state, holder, fence, lease_from, lease_until, granted, renewed
		  FROM pgid.lease_status ORDER BY pool, shard`)
	if err != nil {
		return err
	}
	if asJSON {
		out := json.NewEncoder(a.Stdout)
		for _, l := range leases {
			inUTC(l.LeaseFrom, l.LeaseUntil, l.Granted, l.Renewed)
			if err := out.Encode(l); err != nil {
				return err
			}
		}
		return nil
	}
	if len(leases) == 0 {
		_, err := fmt.Fprintln(a.Stdout, "no pools yet: create one, as in «pgid pool create workers 100-115»")
		return err
	}
	t := display.NewTable("pool", "shard", "state", "holder", "fence", "until", "granted", "renewed")
	for _, l := range leases {
		t.AppendRow(table.Row{
			harmless(l.Pool), int(l.Shard), l.State, harmless(orDash(l.Holder)), orDash(l.Fence), timeOrDash(l.LeaseUntil, display.TimeFormat),
			timeOrDash(l.Granted, display.TimeFormat), timeOrDash(l.Renewed, display.TimeFormat),
		})
	}
	_, err = fmt.Fprintln(a.Stdout, t.Render())
	return err
}
