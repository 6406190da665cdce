package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/nextid/postgres-ids/internal/display"
	"github.com/nextid/postgres-ids/pgid"
)

func (a *app) decode() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "decode ID...",
		Short: "Show the time, shard and seq of IDs",
		Long: `Show the time (UTC), shard and seq of IDs, with the bits of each. The argument - reads IDs from the
standard input, one a line. No database is needed: times count from the default epoch,
2026-01-01T00:00:00Z, or from --epoch. Give --database-url to use that database's epoch.`,
		Example: `  pgid decode 242904336634483712
  pgid decode --json 242904336634483712 -1
  pgid next --shard 5 --count 3 | pgid decode -`,
		Annotations: map[string]string{takesNumbers: "yes"},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("give an ID to decode, or - to read IDs from the standard input: see «%s --help»", cmd.CommandPath())
			}
			return nil
		},
	}
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object a line")
	epoch := cmd.Flags().String("epoch", "", "the `time` from which IDs count, as in 2020-01-01T00:00:00Z")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := a.readIDs(cmd.Context(), numbers(args))
		if err != nil {
			return err
		}
		layout, err := a.layout(cmd.Context(), strings.TrimPrefix(*epoch, shield))
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(ids, layout)
		}
		return a.printBits(ids, layout)
	}
	return cmd
}

// layout is that of the epoch, else that of the database of the flag, else the default.
func (a *app) layout(ctx context.Context, epoch string) (pgid.Layout, error) {
	if epoch != "" {
		if a.databaseURL != "" {
			return pgid.Layout{}, errors.New("--epoch and --database-url both name an epoch: give one of them")
		}
		t, err := time.Parse(time.RFC3339, epoch)
		if err != nil {
			return pgid.Layout{}, fmt.Errorf("--epoch %q is not a time: use RFC 3339, as in 2020-01-01T00:00:00Z", epoch)
		}
		return pgid.NewLayout(t)
	}
	if a.databaseURL == "" {
		return pgid.Layout{}, nil
	}
	var layout pgid.Layout
	err := a.withConn(ctx, func(conn *pgx.Conn) error {
		settings, err := pgid.NewClient(conn).Settings(ctx)
		layout = settings.Layout
		return err
	})
	return layout, err
}

// readIDs reads all IDs, those of the standard input in the place of "-".
func (a *app) readIDs(ctx context.Context, args []string) ([]pgid.ID, error) {
	var ids []pgid.ID
	for _, arg := range args {
		if arg == "-" {
			more, err := a.readLines(ctx)
			if err != nil {
				return nil, err
			}
			ids = append(ids, more...)
			continue
		}
		id, err := parseID(arg)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// readLines reads IDs from the standard input until its end, or that of ctx: a
// terminal's end may never come.
func (a *app) readLines(ctx context.Context) ([]pgid.ID, error) {
	type result struct {
		ids []pgid.ID
		err error
	}
	read := make(chan result, 1)
	go func() {
		ids, err := parseLines(a.Stdin)
		read <- result{ids, err}
	}()
	select {
	case r := <-read:
		return r.ids, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func parseLines(r io.Reader) ([]pgid.ID, error) {
	var ids []pgid.ID
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		id, err := parseID(text)
		if err != nil {
			return nil, fmt.Errorf("standard input, line %d: %w", n, err)
		}
		ids = append(ids, id)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the standard input: %w", err)
	}
	return ids, nil
}

func parseID(text string) (pgid.ID, error) {
	id, err := pgid.Parse(text)
	var bad *pgid.ParseError
	if errors.As(err, &bad) {
		return 0, fmt.Errorf("%w: an ID is a decimal number from -9223372036854775808 to 9223372036854775807", err)
	}
	return id, err
}

func (a *app) printJSON(ids []pgid.ID, layout pgid.Layout) error {
	buffered := bufio.NewWriter(a.Stdout)
	out := json.NewEncoder(buffered)
	for _, id := range ids {
		parts := layout.Decode(id)
		err := out.Encode(struct {
			ID    pgid.ID    `json:"id"`
			Time  string     `json:"time"`
			Shard pgid.Shard `json:"shard"`
			Seq   pgid.Seq   `json:"seq"`
		}{id, parts.Time.Format(display.TimeFormat), parts.Shard, parts.Seq})
		if err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// printBits prints each ID as two rows: its fields, and below them their bits.
func (a *app) printBits(ids []pgid.ID, layout pgid.Layout) error {
	t := display.NewTable("ID",
		fmt.Sprintf("time (%d bits)", pgid.TimeBits),
		fmt.Sprintf("shard (%d)", pgid.ShardBits),
		fmt.Sprintf("seq (%d)", pgid.SeqBits))
	style := *t.Style()
	style.Options.SeparateRows = true
	t.SetStyle(style)
	for _, id := range ids {
		parts := layout.Decode(id)
		bits := fmt.Sprintf("%064b", uint64(id))
		time, shard, seq := bits[:pgid.TimeBits], bits[pgid.TimeBits:pgid.TimeBits+pgid.ShardBits], bits[pgid.TimeBits+pgid.ShardBits:]
		t.AppendRow(table.Row{
			id.String(),
			parts.Time.Format(display.TimeFormat) + "\n" + time,
			fmt.Sprintf("%d\n%s", parts.Shard, shard),
			fmt.Sprintf("%d\n%s", parts.Seq, seq),
		})
	}
	_, err := fmt.Fprintln(a.Stdout, t.Render())
	return err
}
