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
	return a.withConn(ctx, func(conn *pgx.Conn) error {
		if _, err := pgid.NewClient(conn).Settings(ctx); err != nil {
			return permissionError(err, needToOwn)
		}
		created, err := a.inBatches(ranges, "stand", func(batch shardRange) (n int, err error) {
			err = conn.QueryRow(ctx, "SELECT pgid.create_shards($1::integer, $2::integer)", int32(batch.first), int32(batch.last)).Scan(&n)
			return n, err
		})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.Stdout, "created %d, stood already %d\n", created, size(ranges)-created)
		return err
	})
}

// inBatches calls create for one batch of shards after the other, and returns how many were
// new. An error says up to which shard they stand, or what becomes of them, before it.
func (a *app) inBatches(ranges []shardRange, stand string, create func(shardRange) (int, error)) (created int, err error) {
	line := display.NewLine(a.progress())
	defer line.Clear()
	done, total := 0, size(ranges)
	for _, batch := range batches(ranges) {
		n, err := create(batch)
		if err != nil {
			err = permissionError(err, needToOwn)
			if done > 0 {
				err = fmt.Errorf("shards up to %d %s, run it again for the rest: %w", batch.first-1, stand, err)
			}
			return created, err
		}
		created += n
		done += batch.size()
		if done < total {
			line.Show("%d of %d shards", done, total)
		}
	}
	return created, nil
}

// size is how many shards ranges hold.
func size(ranges []shardRange) (n int) {
	for _, r := range ranges {
		n += r.size()
	}
	return n
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
