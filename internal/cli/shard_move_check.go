package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nextid/postgres-ids/internal/display"
	"github.com/nextid/postgres-ids/pgid"
)

// A side is one of the two databases of a move.
type side struct {
	name     string // source or target
	conn     *pgx.Conn
	settings pgid.Settings
	place    place
}

// place is what a database knows of the shard.
type place struct {
	Stands   bool
	Closed   bool     // it issues nothing, and remembers its last ID
	Retired  bool     // so the table says
	LastID   *pgid.ID // the last one drawn, or that it was raised past
	NowMS    int64    // the database's clock
	Holder   string
	Until    *time.Time // the end of the holder's window
	ReadOnly bool
	IsOwner  bool
	Identity string  // of the database; a standby has its primary's
	MovedTo  *string // the identity of the database that the shard was carried to
}

const placeQuery = `
SELECT base.now IS NOT NULL,
       coalesce(base.now >= pgid.retiring_base(), false),
       EXISTS (SELECT FROM pgid.shard AS s WHERE s.shard = n AND s.retired IS NOT NULL),
       pgid.compose(pgid.last_tick(n), n),
       pgid.now_ms(),
       coalesce((SELECT l.holder FROM pgid.lease_status AS l WHERE l.shard = n AND l.state = 'held'), ''),
       (SELECT l.lease_until FROM pgid.lease_status AS l WHERE l.shard = n),
       current_setting('transaction_read_only')::boolean,
       (SELECT pg_has_role(s.nspowner, 'USAGE') FROM pg_namespace AS s WHERE s.nspname = 'pgid'),
       (SELECT format('%s (%s/%s)', d.datname, (SELECT c.system_identifier FROM pg_control_system() AS c), d.oid)
          FROM pg_database AS d WHERE d.datname = current_database()),
       (SELECT s.moved_to FROM pgid.shard AS s WHERE s.shard = n)
  FROM (SELECT $1::integer AS n) AS shard,
       LATERAL (SELECT pgid.base(n) AS now) AS base`

func (m *move) open(ctx context.Context, name string, database [2]string) (side, error) {
	s := side{name: name}
	conn, err := m.openNamed(ctx, database[0], database[1])
	if err != nil {
		return s, s.failed(err)
	}
	s.conn = conn
	if s.settings, err = lifeSettings(ctx, conn); err != nil {
		s.close(ctx)
		return s, s.failed(err)
	}
	return s, nil
}

func (s *side) close(ctx context.Context) { _ = s.conn.Close(context.WithoutCancel(ctx)) }

// failed says on which side an error happened.
func (s *side) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", s.name, err)
}

// look reads what the side knows of the shard.
func (s *side) look(ctx context.Context, shard pgid.Shard) error {
	rows, err := s.conn.Query(ctx, placeQuery, int32(shard))
	if err == nil {
		s.place, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[place])
	}
	switch {
	case err != nil:
		return s.failed(permissionError(err, needToOwn))
	case !s.place.IsOwner:
		return s.failed(errors.New("the role may not retire and create shards: " + needToOwn))
	case s.place.ReadOnly:
		return s.failed(errors.New("the database is read-only: name the primary, and see default_transaction_read_only"))
	}
	return nil
}

// check refuses what cannot be moved. It changes nothing.
func (m *move) check(ctx context.Context) error {
	if a, b := m.source.settings, m.target.settings; a.Version != b.Version {
		return fmt.Errorf("the schema pgid has version %d at the source and %d at the target: run «pgid migrate up» on both", a.Version, b.Version)
	} else if !a.Layout.Epoch().Equal(b.Layout.Epoch()) {
		return fmt.Errorf("the IDs of the source count from %s, those of the target from %s: a shard cannot move between epochs",
			a.Layout.Epoch().Format(time.RFC3339Nano), b.Layout.Epoch().Format(time.RFC3339Nano))
	}
	same, err := m.isOneDatabase(ctx)
	if err != nil {
		return err
	}
	if same {
		return fmt.Errorf("the source and the target are the same database, %q: shard %d is there", m.source.conn.Config().Database, m.shard)
	}
	line := display.NewLine(m.progress())
	defer line.Clear()
	for start := time.Now(); ; {
		// The source first: its reading of the clock is the older one.
		if err := m.source.look(ctx, m.shard); err != nil {
			return err
		}
		if err := m.target.look(ctx, m.shard); err != nil {
			return err
		}
		err := m.checkPlaces()
		if err == nil {
			return nil
		}
		var early *earlyError
		if !errors.As(err, &early) || early.left > m.wait-time.Since(start) {
			return fmt.Errorf("%w; nothing was touched", err)
		}
		line.Show("waiting %s for the clock of the target to come up to the last ID of shard %d", early.left.Truncate(time.Second), m.shard)
		if err := (pgid.SystemClock{}).Sleep(ctx, min(early.left, pollInterval)); err != nil {
			return err
		}
	}
}

// earlyError is that of a target whose clock will do after a while.
type earlyError struct {
	error
	left time.Duration
}

// isOneDatabase asks the target for a lock that the source has just taken: whatever the
// two were called by, and copied from.
func (m *move) isOneDatabase(ctx context.Context) (same bool, err error) {
	tx, err := m.source.conn.Begin(ctx)
	if err != nil {
		return false, m.source.failed(err)
	}
	defer rollback(ctx, tx)
	key := rand.Int64()
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1::bigint)", key); err != nil {
		return false, m.source.failed(err)
	}
	err = m.target.conn.QueryRow(ctx, `
		SELECT EXISTS (
		         SELECT FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
		          WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.objsubid = 1
		            AND (l.classid::bigint << 32 | l.objid::bigint) = $1::bigint)`, key).Scan(&same)
	return same, m.target.failed(err)
}

// checkPlaces refuses by what the two sides know of the shard.
func (m *move) checkPlaces() error {
	source, target := m.source.place, m.target.place
	switch {
	case !source.Stands:
		return m.source.failed(fmt.Errorf("shard %d does not exist there", m.shard))
	case source.Retired && !source.Closed:
		return m.source.failed(fmt.Errorf("shard %d was retired there, and a restore without its sequences lost its last ID:"+
			" at the target, call pgid.create_shard(%[1]d, ID) with the largest ID in your tables", m.shard))
	case source.MovedTo != nil && !sameDatabase(*source.MovedTo, target.Identity) && !m.elsewhere:
		return elsewhereError(m.shard, *source.MovedTo)
	case target.Closed || target.Retired:
		return m.target.failed(fmt.Errorf("shard %d was retired there (ID003), and can never come back: move it to another database", m.shard))
	case !source.Closed && target.Stands && target.LastID != nil:
		return fmt.Errorf("shard %d issues IDs at the source, and stands past an ID at the target already, %s: one shard in two"+
			" databases may repeat IDs; if the target is a copy that nobody drew from, retire the shard at the source first,"+
			" with «pgid shard retire %[1]d», and run it again", m.shard, idText(m.target.settings.Layout, *target.LastID))
	case !source.Closed && source.Holder != "":
		return m.source.failed(leasedError(m.shard, source.Holder, *source.Until))
	}
	return m.checkClock()
}

// leasedError is that of a shard that somebody holds a lease of.
func leasedError(shard pgid.Shard, holder string, until time.Time) error {
	return fmt.Errorf("%s holds a lease of shard %d until %s, and may issue IDs: let it give the lease back,"+
		" and wait for the end of its window", fold(holder), shard, until.UTC().Format(display.TimeFormat))
}

// sameDatabase compares two identities. A database may be given another name.
func sameDatabase(a, b string) bool {
	return a[strings.LastIndex(a, " (")+1:] == b[strings.LastIndex(b, " (")+1:]
}

// elsewhereError is that of a shard that was carried to another database before.
func elsewhereError(shard pgid.Shard, to string) error {
	return fmt.Errorf("shard %d was moved to the database %s before, and two that carry it on issue the same IDs:"+
		" if that one never will again, add --elsewhere", shard, fold(to))
}

// checkClock refuses a target whose clock would keep the shard from issuing IDs. With
// the last ID it will catch up, with a clock that is ahead of it, it will not.
func (m *move) checkClock() error {
	source, target, limits := m.source.place, m.target.place, m.target.settings.Limits
	if source.Closed && m.isPast(source.LastID) {
		return nil // the move was finished before
	}
	most := limits.MaxLead + limits.MaxWait
	const consequence = "the shard would issue nothing there until it has caught up"
	if behind := milliseconds(source.NowMS - target.NowMS); !source.Closed && behind > most {
		return fmt.Errorf("the clock of the target is %s behind the clock of the source, and may be %s: %s: correct the clock that is wrong",
			behind, most, consequence)
	}
	if source.LastID == nil {
		return nil
	}
	if behind := milliseconds(int64(*source.LastID)>>(pgid.ShardBits+pgid.SeqBits) - target.NowMS); behind > most {
		return &earlyError{
			fmt.Errorf("the clock of the target is %s behind the last ID of shard %d, and may be %s: %s: wait (--wait)", behind, m.shard, most, consequence),
			behind - most,
		}
	}
	return nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
