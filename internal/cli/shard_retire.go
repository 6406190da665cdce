package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/nextid/postgres-ids/internal/display"
	"github.com/nextid/postgres-ids/pgid"
)

func (a *app) shardRetire() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retire SHARDS...",
		Short: "Stop shards for good, and print the last ID of each",
		Long: `Stop shards for good, and print the last ID of each: no ID of the shard is larger, whoever drew it.
It holds at once for every session, and cannot be undone: a retired shard never issues IDs in this
database again. Those that it has issued stay good. Once more, and it prints the same. To carry a
shard on in another database, use «pgid shard move».`,
		Example: `  pgid shard retire 5 --yes
  pgid shard retire 0-3,7 --yes --json`,
		Annotations: map[string]string{takesNumbers: "yes"},
		Args:        someShards("retire", "5"),
	}
	yes := cmd.Flags().Bool("yes", false, "do it: without this, nothing is done")
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object a line")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ranges, err := parseRanges(numbers(args))
		if err != nil {
			return err
		}
		if !*yes {
			return fmt.Errorf("%s would never issue an ID in this database again, and that is for good: add --yes to do it",
				rangesText(ranges))
		}
		return a.retireShards(cmd.Context(), ranges, *asJSON)
	}
	return cmd
}

// someShards asks for shards to do something with.
func someShards(what, example string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("name the shards to %s, as in «%s %s»", what, cmd.CommandPath(), example)
		}
		return nil
	}
}

// rangesText is ranges as people read them: "shards 0-3, 7", or "shard 5".
func rangesText(ranges []shardRange) string {
	parts := make([]string, len(ranges))
	for i, r := range ranges {
		parts[i] = strconv.Itoa(int(r.first))
		if r.last > r.first {
			parts[i] += "-" + strconv.Itoa(int(r.last))
		}
	}
	if len(ranges) == 1 && ranges[0].size() == 1 {
		return "shard " + parts[0]
	}
	return "shards " + strings.Join(parts, ", ")
}

// retirement is what «shard retire» prints of a shard.
type retirement struct {
	Shard  pgid.Shard `json:"shard"`
	LastID *pgid.ID   `json:"last_id"`
}

func (a *app) retireShards(ctx context.Context, ranges []shardRange, asJSON bool) error {
	return a.withWarnings(ctx, func(conn *pgx.Conn) error {
		settings, err := lifeSettings(ctx, conn)
		if err != nil {
			return err
		}
		if err := requireAll(ctx, conn, ranges); err != nil {
			return err
		}
		for _, r := range ranges {
			for shard := r.first; shard <= r.last; shard++ {
				last, err := a.retireShard(ctx, conn, shard)
				if err != nil {
					return permissionError(err, needToOwn)
				}
				if err := a.printRetired(settings.Layout, retirement{shard, last}, asJSON); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// requireAll refuses shards that do not exist, before any is touched.
func requireAll(ctx context.Context, conn *pgx.Conn, ranges []shardRange) error {
	missing, err := firstShard(ctx, conn, ranges, "pgid.base(n) IS NULL")
	if err == nil && missing != nil {
		err = fmt.Errorf("shard %d does not exist in this database: nothing was retired", *missing)
	}
	return err
}

// firstShard is the first number n in the ranges of which a condition in SQL holds, nil if
// there is none.
func firstShard(ctx context.Context, conn *pgx.Conn, ranges []shardRange, condition string) (*pgid.Shard, error) {
	for _, r := range ranges {
		var first *pgid.Shard
		err := conn.QueryRow(ctx, "SELECT min(n) FROM generate_series($1::integer, $2::integer) AS n WHERE "+condition,
			int32(r.first), int32(r.last)).Scan(&first)
		if err != nil || first != nil {
			return first, permissionError(err, needToOwn)
		}
	}
	return nil, nil
}

// retireShard retires a shard, and warns if somebody holds a lease of it.
func (a *app) retireShard(ctx context.Context, conn *pgx.Conn, shard pgid.Shard) (*pgid.ID, error) {
	tx, err := beginDurable(ctx, conn)
	if err != nil {
		return nil, err
	}
	defer rollback(ctx, tx)
	holder, until, err := heldLease(ctx, tx, shard)
	if err != nil {
		return nil, err
	}
	last, err := retire(ctx, tx, shard)
	if err != nil {
		return nil, err
	}
	if holder != "" {
		_, _ = fmt.Fprintf(a.Stderr, "pgid: warning: %s holds a lease of shard %d: it may issue IDs, none past the last one, until %s\n",
			fold(holder), shard, until.UTC().Format(display.TimeFormat))
	}
	return last, tx.Commit(ctx)
}

// heldLease locks the shard's lease, if it is in a pool, against grants and renewals to
// the end of the transaction, and returns who holds it now, "" for nobody.
func heldLease(ctx context.Context, tx pgx.Tx, shard pgid.Shard) (holder string, until time.Time, err error) {
	if _, err := tx.Exec(ctx, "SELECT FROM pgid.lease WHERE shard = $1::integer FOR UPDATE", int32(shard)); err != nil {
		return "", time.Time{}, err
	}
	err = tx.QueryRow(ctx, "SELECT holder, lease_until FROM pgid.lease_status WHERE shard = $1::integer AND state = 'held'", int32(shard)).
		Scan(&holder, &until)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return holder, until, err
}

// retire returns the last ID of the shard that it retires, nil if it has none.
func retire(ctx context.Context, tx pgx.Tx, shard pgid.Shard) (last *pgid.ID, err error) {
	err = tx.QueryRow(ctx, "SELECT pgid.retire_shard($1::integer)", int32(shard)).Scan(&last)
	return last, err
}

func (a *app) printRetired(layout pgid.Layout, r retirement, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(a.Stdout).Encode(r)
	}
	outcome := "it has issued no ID"
	if r.LastID != nil {
		outcome = "its last ID is " + idText(layout, *r.LastID)
	}
	_, err := fmt.Fprintf(a.Stdout, "shard %d is retired: %s\n", r.Shard, outcome)
	return err
}

// idText is an ID and its time.
func idText(layout pgid.Layout, id pgid.ID) string {
	return fmt.Sprintf("%d, of %s", id, layout.Time(id).UTC().Format(display.TimeFormat))
}
