package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/nextid/postgres-ids/internal/display"
	"github.com/nextid/postgres-ids/pgid"
)

func (a *app) shardAdvance() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "advance SHARD",
		Short: "Make sure that a shard's later IDs exceed a given ID",
		Long: `Make sure that a shard's later IDs exceed a given ID, of this or any other shard. It never lowers
anything. For a shard whose tables hold newer IDs than it remembers, as after a restore: give it
the largest of them. The shard issues nothing until the clock has come up to that ID, and nothing
brings it back: past one that is ahead of the clock by more than a minute, it asks for --yes.`,
		Example: `  pgid shard advance 5 --past 242904336634483712
  pgid shard advance 5 --past "$(psql -Atc 'SELECT max(id) FROM photo')"`,
		Annotations: map[string]string{takesNumbers: "yes"},
		Args:        exactly(1, "one shard"),
	}
	past := cmd.Flags().String("past", "", "the `ID` that later ones exceed")
	yes := cmd.Flags().Bool("yes", false, "do it also past an ID that is ahead of the clock by more than a minute")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		shard, err := shardArgument(numbers(args)[0])
		if err != nil {
			return err
		}
		text := strings.TrimPrefix(*past, shield)
		if text == "" {
			return errors.New("name the ID to advance past, as in «pgid shard advance 5 --past 242904336634483712»")
		}
		id, err := pgid.Parse(text)
		if err != nil {
			return fmt.Errorf("--past: %w", err)
		}
		return a.advanceShard(cmd.Context(), shard, id, *yes)
	}
	return cmd
}

// shardArgument reads one shard.
func shardArgument(text string) (pgid.Shard, error) {
	shard, err := parseShard(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a shard: use a number from 0 to %d", text, pgid.MaxShard)
	}
	return shard, nil
}

func (a *app) advanceShard(ctx context.Context, shard pgid.Shard, past pgid.ID, yes bool) error {
	return a.withWarnings(ctx, func(conn *pgx.Conn) error {
		settings, err := lifeSettings(ctx, conn)
		if err != nil {
			return err
		}
		if !yes {
			if err := requireNear(ctx, conn, settings.Layout, shard, past); err != nil {
				return err
			}
		}
		tx, err := beginDurable(ctx, conn)
		if err != nil {
			return err
		}
		defer rollback(ctx, tx)
		var raised bool
		err = tx.QueryRow(ctx, "SELECT pgid.advance_shard($1::integer, $2::bigint)", int32(shard), int64(past)).Scan(&raised)
		if err != nil {
			return permissionError(err, needToOwn)
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		outcome := "is past it already"
		if raised {
			outcome = "is advanced past it"
		}
		_, err = fmt.Fprintf(a.Stdout, "ID %s: shard %d %s\n", idText(settings.Layout, past), shard, outcome)
		return err
	})
}

// requireNear refuses an ID that a shard would wait for longer than a minute.
func requireNear(ctx context.Context, conn *pgx.Conn, layout pgid.Layout, shard pgid.Shard, past pgid.ID) error {
	var now time.Time
	if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return err
	}
	if ahead := layout.Time(past).Sub(now); ahead > time.Minute {
		return fmt.Errorf("shard %d would issue no ID until %s, %s from now, and nothing brings it back: add --yes to advance it past %d",
			shard, layout.Time(past).UTC().Format(display.TimeFormat), ahead.Round(time.Second), past)
	}
	return nil
}
