package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	driver "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// A session is one run of golang-migrate.
type session struct {
	*migrate.Migrate
	installed uint // the version that the schema itself reports
}

// run opens a session on url, calls do, and translates its outcome. A step that
// failed was rolled back whole, so its dirty mark is taken back too. The guard is held
// by the caller: nobody else migrates meanwhile.
func run(ctx context.Context, url string, guard pgx.Tx, do func(*session) error) error {
	installed, err := installedVersion(ctx, guard)
	if err != nil {
		return err
	}
	latest, err := Latest()
	if err != nil {
		return err
	}
	if installed > latest {
		return fmt.Errorf("%w: it has version %d, this program knows 0 to %d: use a newer one", ErrNewer, installed, latest)
	}
	err = runSession(ctx, url, installed, do)
	var failed database.Error // by value: how the driver reports a step, and nothing else
	if errors.As(err, &failed) {
		err = errors.Join(explain(failed.OrigErr), mend(ctx, url, guard))
	}
	if cause := ctx.Err(); cause != nil && err != nil {
		return fmt.Errorf("pgid: migration interrupted: %w", cause)
	}
	return err
}

// mend makes the record say what the schema says, after a step failed and was rolled
// back: steps before it may have been done.
func mend(ctx context.Context, url string, guard pgx.Tx) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	installed, err := installedVersion(ctx, guard)
	if err != nil {
		return err
	}
	return runSession(ctx, url, installed, func(s *session) error { return s.force(s.installed) })
}

// rehearseDown runs the steps down from the installed version and takes them back:
// each is a transaction of its own when it counts, and if the last one is refused,
// those before it must not have happened.
func rehearseDown(ctx context.Context, guard pgx.Tx) error {
	version, err := installedVersion(ctx, guard)
	if err != nil {
		return err
	}
	src, err := iofs.New(FS, ".")
	if err != nil {
		return fmt.Errorf("pgid: embedded migrations: %w", err)
	}
	defer func() { _ = src.Close() }()
	rehearsal, err := guard.Begin(ctx)
	if err != nil {
		return fmt.Errorf("pgid: %w", err)
	}
	defer func() { _ = rehearsal.Rollback(context.WithoutCancel(ctx)) }()
	for ; version > 0; version-- {
		step, err := readDown(src, version)
		if err != nil {
			return err
		}
		if _, err := rehearsal.Conn().PgConn().Exec(ctx, step).ReadAll(); err != nil {
			return explain(err)
		}
	}
	return nil
}

func readDown(src source.Driver, version uint) (string, error) {
	file, _, err := src.ReadDown(version)
	if err != nil {
		return "", fmt.Errorf("pgid: embedded migrations: %w", err)
	}
	defer func() { _ = file.Close() }()
	step, err := io.ReadAll(file)
	if err != nil {
		return "", fmt.Errorf("pgid: embedded migrations: %w", err)
	}
	return string(step), nil
}

// runSession does one run. The handles it opens are its own: closing golang-migrate
// closes the *sql.DB in it.
func runSession(ctx context.Context, url string, installed uint, do func(*session) error) error {
	config, err := parse(url)
	if err != nil {
		return err
	}

	// golang-migrate takes no context, and does all its work on one connection:
	// when ctx ends, cancel that one's statement.
	var conn atomic.Pointer[pgx.Conn]
	db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(func(_ context.Context, c *pgx.Conn) error {
		conn.Store(c)
		return nil
	}))
	db.SetMaxOpenConns(1)
	defer func() { _ = db.Close() }()
	if err := db.PingContext(ctx); err != nil {
		return fmt.Errorf("pgid: %w", err)
	}
	defer cancelAtEnd(ctx, &conn)()
	return migrateOn(db, installed, do)
}

func migrateOn(db *sql.DB, installed uint, do func(*session) error) error {
	src, err := iofs.New(FS, ".")
	if err != nil {
		return fmt.Errorf("pgid: embedded migrations: %w", err)
	}
	target, err := driver.WithInstance(db, &driver.Config{MigrationsTable: Table})
	if err != nil {
		return fmt.Errorf("pgid: migration record: %w", cause(err))
	}
	m, err := migrate.NewWithInstance("iofs", src, "pgx5", target)
	if err != nil {
		return fmt.Errorf("pgid: migrations: %w", err)
	}
	m.LockTimeout = time.Hour // of waiting for another process: it is ctx that ends it
	err = do(&session{Migrate: m, installed: installed})

	var dirty migrate.ErrDirty
	var step database.Error
	switch {
	case errors.Is(err, migrate.ErrNoChange):
		err = nil
	case errors.As(err, &dirty):
		err = dirtyError(dirty.Version, installed)
	case errors.As(err, &step): // for run to translate
	case err != nil:
		err = fmt.Errorf("pgid: migrate: %w", cause(err))
	}
	if srcErr, dbErr := m.Close(); err == nil {
		err = errors.Join(srcErr, dbErr)
	}
	return err
}

// reconcile makes the record say what the schema says, unless it is dirty.
func (s *session) reconcile() error {
	recorded, dirty, err := s.Version()
	switch {
	case errors.Is(err, migrate.ErrNilVersion):
		recorded = 0
	case err != nil:
		return err
	case dirty:
		return migrate.ErrDirty{Version: int(recorded)}
	}
	if recorded == s.installed {
		return nil
	}
	return s.force(s.installed)
}

func (s *session) force(version uint) error {
	if version == 0 {
		return s.Force(database.NilVersion)
	}
	return s.Force(int(version))
}

// explain says in one line why a step failed.
func explain(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Errorf("pgid: migration step failed, and was rolled back: %w", err)
	}
	if pg.Code == "2BP01" { // dependent objects still exist
		return fmt.Errorf("%w: drop or change what needs it first: %s: %w", ErrInUse, oneLine(pg.Detail), err)
	}
	return fmt.Errorf("pgid: migration step failed, and was rolled back: %w", err)
}

// cause is the error inside golang-migrate's, which prints whole queries and does
// not unwrap.
func cause(err error) error {
	var wrapped *database.Error
	if errors.As(err, &wrapped) && wrapped.OrigErr != nil {
		return wrapped.OrigErr
	}
	return err
}

// cancelAtEnd cancels what the connection runs when ctx ends, again and again until
// the returned function is called: the first may fall between two statements.
func cancelAtEnd(ctx context.Context, conn *atomic.Pointer[pgx.Conn]) (stop func()) {
	finished := make(chan struct{})
	go func() {
		select {
		case <-finished:
			return
		case <-ctx.Done():
		}
		for {
			request, release := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			_ = conn.Load().PgConn().CancelRequest(request)
			release()
			select {
			case <-finished:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() { close(finished) }
}
