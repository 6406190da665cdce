package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/nextid/postgres-ids/internal/display"
	"github.com/nextid/postgres-ids/pgid"
)

func (a *app) shardMove() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "move SHARD",
		Short: "Carry a shard on in another database",
		Long: `Carry a shard on in another database: its IDs there exceed all that it has issued here.

  1. Both databases are checked, the clock of the target, too: it may have to come up to the
     shard's last ID. What is refused here has touched nothing.
  2. The shard is retired at the source, for good: calls for it fail with ID003 from then on.
  3. Transactions that are in flight at the source are waited for: they may hold rows of the
     shard that nobody else sees yet.
  4. The shard is created at the target, past its last ID.

Between 2 and 4 nobody issues IDs of the shard. Interrupted at any point, the move is finished by
running it again; of a finished move, that changes nothing. The source remembers the target, and a
move to another one is refused. A client that gets ID003 turns to the
target, and tries again there while it gets ID002 (no such shard) or ID005 (busy).`,
		Example: `  pgid shard move 5 --from postgres://owner@old/mydb --to postgres://owner@new/mydb
  PGID_DATABASE_URL=postgres://owner@old/mydb pgid shard move 5 --to postgres://owner@new/mydb`,
		Annotations: map[string]string{takesNumbers: "yes"},
		Args:        exactly(1, "one shard"),
	}
	from := cmd.Flags().String("from", "", "the source, as `URL` (default: the database that other commands use)")
	to := cmd.Flags().String("to", "", "the target, as `URL`")
	wait := cmd.Flags().String("wait", "5m", "the longest `TIME` to wait, as in 90s, until the target's clock has passed the\nlast ID and transactions in flight have ended; 0: no longer than now")
	elsewhere := cmd.Flags().Bool("elsewhere", false, "move it although it was moved to another database before, which is gone for good")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		shard, err := shardArgument(numbers(args)[0])
		if err != nil {
			return err
		}
		text := strings.TrimPrefix(*wait, shield)
		most, err := time.ParseDuration(text)
		switch {
		case *to == "":
			return errors.New("name the target, as in «pgid shard move 5 --to postgres://owner@new/mydb»")
		case err != nil || most < 0:
			return fmt.Errorf("--wait %q is not a time to wait: use one as in 90s or 5m, or 0", text)
		}
		source := "--from"
		if *from == "" {
			if *from, err = a.database(); err != nil {
				return err
			}
			source = "the source"
		}
		for _, database := range [][2]string{{*from, source}, {*to, "--to"}} { // both, before either is asked
			if err := checkURL(database[0], database[1]); err != nil {
				return err
			}
		}
		m := &move{app: a, shard: shard, wait: most, elsewhere: *elsewhere}
		return m.run(cmd.Context(), [2]string{*from, source}, [2]string{*to, "--to"})
	}
	return cmd
}

// move is one run of «shard move».
type move struct {
	*app
	shard  pgid.Shard
	wait   time.Duration
	source side
	target side

	elsewhere bool // although it was moved to another database before
}

// run moves the shard between two databases, each given by its name and what named it.
func (m *move) run(ctx context.Context, from, to [2]string) (err error) {
	if m.source, err = m.open(ctx, "source", from); err != nil {
		return err
	}
	defer m.source.close(ctx)
	if m.target, err = m.open(ctx, "target", to); err != nil {
		return err
	}
	defer m.target.close(ctx)

	// One transaction at the target, from before the retirement to the end. It has the
	// shard's lock, so that a shard that stands there already, unused, issues nothing
	// before it is past the last ID: the first ID of any shard needs that lock.
	tx, err := m.lockTarget(ctx)
	if err != nil {
		return m.target.failed(err)
	}
	defer rollback(ctx, tx)
	if err := m.check(ctx); err != nil {
		return err
	}

	last, err := m.retire(ctx)
	if err != nil {
		return m.source.failed(err)
	}
	finished := m.source.place.Closed && m.isPast(last)
	if !finished {
		err = m.waitForOthers(ctx)
	}
	if err == nil {
		err = m.settle(ctx, tx, last)
	}
	switch {
	case err == nil:
		return m.printMoved(ctx, last, finished)
	case ctx.Err() != nil: // all that is said of err is that it was an interruption
		_, _ = fmt.Fprintf(m.Stderr, "pgid: %s\n", m.halfway())
		return err
	default:
		return fmt.Errorf("%s: %w", m.halfway(), err)
	}
}

func (m *move) halfway() string {
	return fmt.Sprintf("shard %d is retired at the source, and not yet at the target: run it again to finish the move", m.shard)
}

// lockTarget begins the target's transaction.
func (m *move) lockTarget(ctx context.Context) (pgx.Tx, error) {
	tx, err := beginDurable(ctx, m.target.conn)
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, "SET LOCAL lock_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = 0")
	if err == nil {
		_, err = tx.Exec(ctx, "SELECT pg_advisory_xact_lock(pgid.lock_class(), $1::integer)", int32(m.shard))
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == lockNotAvailable {
		err = fmt.Errorf("shard %d is busy: is another move of it under way? %w", m.shard, err)
	}
	if err != nil {
		rollback(ctx, tx)
		return nil, permissionError(err, needToOwn)
	}
	return tx, nil
}

const lockNotAvailable = "55P03"

// retire is the step after which there is no way back. It returns the last ID.
func (m *move) retire(ctx context.Context) (*pgid.ID, error) {
	tx, err := beginDurable(ctx, m.source.conn)
	if err != nil {
		return nil, err
	}
	defer rollback(ctx, tx)
	holder, until, err := heldLease(ctx, tx, m.shard)
	if err != nil {
		return nil, err
	}
	if holder != "" {
		return nil, fmt.Errorf("%w; nothing was touched", leasedError(m.shard, holder, until))
	}
	last, err := retire(ctx, tx, m.shard)
	if err != nil {
		return nil, err
	}
	if err := m.recordTarget(ctx, tx); err != nil {
		return nil, err
	}
	return last, tx.Commit(ctx)
}

// recordTarget notes at the source where the shard goes, unless another move got ahead.
func (m *move) recordTarget(ctx context.Context, tx pgx.Tx) error {
	var to string
	err := tx.QueryRow(ctx, `UPDATE pgid.shard
		   SET moved_to = CASE WHEN moved_to IS NULL OR $3::boolean THEN $2::text ELSE moved_to END
		 WHERE shard = $1::integer
		RETURNING moved_to`, int32(m.shard), m.target.place.Identity, m.elsewhere).Scan(&to)
	if err == nil && !sameDatabase(to, m.target.place.Identity) {
		err = elsewhereError(m.shard, to)
	}
	return err
}

// isPast reports whether the target's shard stood past an ID already when it was
// locked: whether the move was finished before.
func (m *move) isPast(last *pgid.ID) bool {
	at := m.target.place
	return at.Stands && (last == nil || at.LastID != nil && *at.LastID >= *last)
}

// settle creates the shard at the target, or raises one that stands there.
func (m *move) settle(ctx context.Context, tx pgx.Tx, last *pgid.ID) error {
	_, err := tx.Exec(ctx, "SELECT pgid.create_shard($1::integer, $2::bigint)", int32(m.shard), (*int64)(last))
	if err == nil {
		err = tx.Commit(ctx)
	}
	return m.target.failed(err)
}

func (m *move) printMoved(ctx context.Context, last *pgid.ID, finished bool) error {
	var now int64
	if err := m.target.conn.QueryRow(ctx, "SELECT pgid.now_ms()").Scan(&now); err != nil {
		return m.target.failed(err)
	}
	outcome := fmt.Sprintf("shard %d has moved", m.shard)
	if finished {
		outcome += " before"
	}
	layout, issued := m.source.settings.Layout, "it has issued no ID at the source"
	first := now // when the target's clock lets it issue
	if last != nil {
		issued = "its last ID at the source is " + idText(layout, *last)
		first = max(now, int64(last.Tick()+1)>>pgid.SeqBits-m.target.settings.Limits.MaxLead.Milliseconds())
	}
	from := "now"
	if first > now {
		from = layout.Epoch().Add(time.Duration(first) * time.Millisecond).UTC().Format(display.TimeFormat)
	}
	_, err := fmt.Fprintf(m.Stdout, "%s: %s; the target issues IDs from %s on\n", outcome, issued, from)
	return err
}
