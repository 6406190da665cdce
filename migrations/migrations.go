// Package migrations installs the pgid schema in a database, step by step.
//
// The steps are embedded, under the file names of golang-migrate, and exported as
// [FS] for those who run them with a tool of their own. [Up], [Down], [Version] and
// [Force] run them with golang-migrate. They keep their record in a table of their
// own, pgid_schema_migrations, so that it lives beside an application's.
//
// Each step runs in one transaction: it happens whole or not at all. The files hold no
// BEGIN or COMMIT of their own: a tool of your own must run each in a transaction, and
// send it whole, for its function bodies contain semicolons.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
)

// Table is the name of the table that records the version. It stands in the first
// schema of the search_path of the role that migrates, which is public by default.
const Table = "pgid_schema_migrations"

// FS holds the steps: NNNNNN_name.up.sql and NNNNNN_name.down.sql. A released file
// never changes.
//
//go:embed *.sql
var FS embed.FS

var (
	// ErrDirty is returned when an earlier run was interrupted and left its record
	// unfinished. The message says what the database holds, and which version to
	// [Force] to mend the record.
	ErrDirty = errors.New("pgid: the migration record is dirty")

	// ErrUnderWay is returned by [Version] while a process migrates the database.
	ErrUnderWay = errors.New("pgid: a migration is under way")

	// ErrNewer is returned when the database has a version that this program does not
	// know: a newer program has migrated it.
	ErrNewer = errors.New("pgid: the database is newer than this program")

	// ErrInUse is returned by [Down] when something outside the schema pgid, a
	// column default for example, still needs it.
	ErrInUse = errors.New("pgid: the schema is in use")
)

// Up brings the database at url to the latest version. Nothing to do is success.
//
// Several processes may call it at once: one applies the steps, the others wait for
// it, and all succeed. What the schema itself says of its version goes before the
// record: a database that sql/install.sql has set up is taken over, and one whose
// schema was dropped by hand is set up anew. When ctx ends, the step under way is
// cancelled and rolled back.
//
// A database that has pgid is migrated as the owner of the schema: another role, a
// superuser too, is refused.
//
// url is a connection URL or a keyword/value string, as pgx reads them. It must lead
// to the server, or to a pooler in session mode: a pooler in transaction mode loses
// the locks of golang-migrate.
func Up(ctx context.Context, url string) error {
	latest, err := Latest()
	if err != nil {
		return err
	}
	return guarded(ctx, url, func(ctx context.Context, guard pgx.Tx) error {
		installed, err := requireRoom(ctx, guard)
		if err == nil && installed < latest {
			err = requireOwner(ctx, guard)
		}
		if err != nil {
			return err
		}
		return run(ctx, url, guard, func(s *session) error {
			if err := s.reconcile(); err != nil {
				return err
			}
			return s.Up()
		})
	})
}

// Down removes the schema pgid, with its shards and what they remember, and the
// record. Stored IDs stay. Nothing to do is success. It returns [ErrInUse], and
// changes nothing, while something outside the schema needs it.
//
// A shard that is created again later starts from the clock: its IDs are new as long
// as the clock has moved past the last one.
func Down(ctx context.Context, url string) error {
	return guarded(ctx, url, func(ctx context.Context, guard pgx.Tx) error {
		if err := requireOwner(ctx, guard); err != nil {
			return err
		}
		err := run(ctx, url, guard, func(s *session) error {
			if err := s.reconcile(); err != nil {
				return err
			}
			if err := rehearseDown(ctx, guard); err != nil {
				return err
			}
			return s.Down()
		})
		if err != nil {
			return err
		}
		return dropEmptyRecord(ctx, guard)
	})
}

// Version is the version that the database at url has: the number of its last step,
// 0 for none. It only reads. It returns [ErrDirty] if a run was interrupted, and
// [ErrUnderWay] during one.
func Version(ctx context.Context, url string) (version uint, err error) {
	err = inTransaction(ctx, url, func(ctx context.Context, tx pgx.Tx) error {
		installed, err := installedVersion(ctx, tx)
		if err != nil {
			return err
		}
		version = installed
		recorded, dirty, err := readRecord(ctx, tx)
		if err != nil || !dirty {
			return err
		}
		alone, err := tryGuard(ctx, tx)
		if err == nil && !alone {
			err = ErrUnderWay
		}
		if err == nil {
			err = dirtyError(recorded, installed)
		}
		return err
	})
	return version, err
}

// Force writes a version, 0 for none, into the record, and clears its dirty mark. It
// changes nothing else: it is the way out of [ErrDirty].
func Force(ctx context.Context, url string, version uint) error {
	latest, err := Latest()
	if err != nil {
		return err
	}
	if version > latest {
		return fmt.Errorf("pgid: version %d is unknown: use 0 to %d", version, latest)
	}
	return guarded(ctx, url, func(ctx context.Context, guard pgx.Tx) error {
		return run(ctx, url, guard, func(s *session) error { return s.force(version) })
	})
}

// Latest is the version that [Up] brings a database to.
func Latest() (uint, error) {
	src, err := iofs.New(FS, ".")
	if err != nil {
		return 0, fmt.Errorf("pgid: embedded migrations: %w", err)
	}
	defer func() { _ = src.Close() }()
	version, err := src.First()
	if err != nil {
		return 0, fmt.Errorf("pgid: embedded migrations: %w", err)
	}
	for {
		next, err := src.Next(version)
		if err != nil { // there is none
			return version, nil
		}
		version = next
	}
}

// dirtyError explains an unfinished record by what the database really holds.
func dirtyError(recorded int, installed uint) error {
	return fmt.Errorf("%w: a run towards version %d was interrupted. A step is one transaction, and the database has version %d:"+
		" run «pgid migrate force %d», then try again", ErrDirty, max(recorded, 0), installed, installed)
}

func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
