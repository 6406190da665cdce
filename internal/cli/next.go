package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/nextid/postgres-ids/pgid"
)

func (a *app) next() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "next",
		Short: "Draw IDs from a shard",
		Long: `Draw IDs from a shard and print them, one decimal a line. Each is larger than every ID that the
shard has issued before.`,
		Example: `  pgid next --shard 5
  pgid next --shard 5 --count 3`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q is one word too many: name the shard as in «pgid next --shard 5»", args[0])
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	shard := cmd.Flags().Int("shard", 0, "the shard, 0 to 8191")
	count := cmd.Flags().Int("count", 1, "how many IDs, 1 or more")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !cmd.Flags().Changed("shard") {
			return errors.New("name the shard to draw from, as in «pgid next --shard 5»")
		}
		if *shard < 0 || *shard > int(pgid.MaxShard) {
			return fmt.Errorf("--shard %d is out of range: use 0 to %d", *shard, pgid.MaxShard)
		}
		if *count < 1 {
			return fmt.Errorf("--count %d is out of range: use 1 or more", *count)
		}
		return a.printNext(cmd.Context(), pgid.Shard(*shard), *count)
	}
	return cmd
}

func (a *app) printNext(ctx context.Context, shard pgid.Shard, count int) error {
	return a.withConn(ctx, func(conn *pgx.Conn) (err error) {
		out := bufio.NewWriter(a.Stdout)
		// On every way out: an ID that was drawn and not printed is lost.
		defer func() { err = errors.Join(err, out.Flush()) }()

		client := pgid.NewClient(conn)
		var line []byte
		for range count {
			id, err := client.NextID(ctx, shard)
			if err != nil {
				return err
			}
			line = append(strconv.AppendInt(line[:0], int64(id), 10), '\n')
			if _, err := out.Write(line); err != nil {
				return nil // Flush returns it, too
			}
		}
		return nil
	})
}
