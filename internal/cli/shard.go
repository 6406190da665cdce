package cli

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
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
		Args:        someShards("create", "0-15"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.createShards(cmd.Context(), numbers(args))
		},
	}
	return group(&cobra.Command{
		Use:   "shard",
		Short: "Create, list, advance, move and retire shards",
		Example: `  pgid shard create 0-15
  pgid shard list
  pgid shard move 5 --from postgres://owner@old/mydb --to postgres://owner@new/mydb`,
	}, create, a.shardList(), a.shardAdvance(), a.shardMove(), a.shardRetire())
}

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
