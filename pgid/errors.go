package pgid

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// The errors of the contract. Each is what errors.Is matches; an error that came
// from the database also holds the *pgconn.PgError, for errors.As.
var (
	// ErrClockBehind is returned when the clock is so far behind the shard's last
	// ID that waiting is not worth it. SQLSTATE ID001.
	ErrClockBehind = errors.New("pgid: the clock is behind the shard")

	// ErrNoShard is returned for a shard that was not created in the database.
	// SQLSTATE ID002.
	ErrNoShard = errors.New("pgid: no such shard")

	// ErrShardRetired is returned for a shard that was retired. SQLSTATE ID003.
	ErrShardRetired = errors.New("pgid: the shard is retired")

	// ErrTimeExhausted is returned when the clock, or the shard's next ID, is past
	// the last millisecond of the layout, 34.8 years after the epoch. SQLSTATE ID004.
	ErrTimeExhausted = errors.New("pgid: the time of the layout is exhausted")

	// ErrShardBusy is returned when another session holds the shard's lock for
	// seconds. SQLSTATE ID005.
	ErrShardBusy = errors.New("pgid: the shard is busy")

	// ErrPoolExhausted is returned when no shard of a pool is free to lease. SQLSTATE
	// ID006.
	ErrPoolExhausted = errors.New("pgid: no shard of the pool is free")

	// ErrLeaseLost is returned for a lease that its holder does not hold any more:
	// it expired and the shard was granted to another, its shard was retired or taken
	// out of the pool, or it was given back. SQLSTATE ID007.
	ErrLeaseLost = errors.New("pgid: the lease is lost")

	// ErrOutOfRange is returned for a shard, sequence, count or limit outside its
	// range, and for a bad setting pgid.shard. SQLSTATE 22023.
	ErrOutOfRange = errors.New("pgid: out of range")

	// ErrNullShard is returned by the database for a null shard. SQLSTATE 22004.
	ErrNullShard = errors.New("pgid: the shard is null")

	// ErrTimeRange is returned for a time that the layout cannot hold. SQLSTATE 22008.
	ErrTimeRange = errors.New("pgid: time out of range")

	// ErrNotInstalled is returned by a [Client] whose database has no pgid schema, or
	// one without the function called.
	ErrNotInstalled = errors.New("pgid: not installed in this database")

	// ErrUnknownVersion is returned by a [Client] whose database has a layout, or a
	// version of the pgid schema, that this package does not know.
	ErrUnknownVersion = errors.New("pgid: unknown version or layout in this database")

	// ErrBadAnswer is returned by a [Client] whose database answered with something
	// else than the range or the window asked for. None of it is used.
	ErrBadAnswer = errors.New("pgid: the database's answer is not the range asked for")

	// ErrStateLost is returned by an [Allocator] or a [Lease] whose database answered
	// with a range, or a window, that is not past all before it: the shard's state went
	// back, as after a failover to a replica that was behind, or a restored backup. None
	// of it is handed out.
	ErrStateLost = errors.New("pgid: the shard went back to an earlier state")

	// ErrStale is returned by an [Allocator] whose ranges are older than MaxAge when
	// they arrive, several times in a row.
	ErrStale = errors.New("pgid: ranges arrive older than their greatest age")

	// ErrLeaseExpired is returned by a [Lease] whose window is over, or used up, and
	// was not renewed in time. It issues IDs again if a later renewal succeeds.
	ErrLeaseExpired = errors.New("pgid: the lease has expired")

	// ErrClosed is returned by an [Allocator] that was closed, and a [Lease] that was
	// released.
	ErrClosed = errors.New("pgid: closed")
)

// byState maps the SQLSTATEs that pgid's functions raise to their sentinels.
var byState = map[string]error{
	"ID001": ErrClockBehind,
	"ID002": ErrNoShard,
	"ID003": ErrShardRetired,
	"ID004": ErrTimeExhausted,
	"ID005": ErrShardBusy,
	"ID006": ErrPoolExhausted,
	"ID007": ErrLeaseLost,
	"22023": ErrOutOfRange,
	"22004": ErrNullShard,
	"22008": ErrTimeRange,
}

// Error wraps an error of a statement that called pgid's functions: if it is, or
// holds, a *pgconn.PgError with a SQLSTATE of the contract, the result also matches
// the sentinel of that state, and its text ends in the server's hint. Any other
// error, nil included, is returned as it is.
//
// [Client] does this by itself. Call Error on the errors of your own statements:
// an INSERT whose default is pgid.next_id(5) fails with the same SQLSTATEs. Mind
// that 22023, 22004 and 22008 are PostgreSQL's own, and may have other causes there.
func Error(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	if isMissing(pg) && strings.Contains(pg.Message, "pgid") {
		if errors.Is(err, ErrNotInstalled) {
			return err
		}
		return notInstalled(err)
	}
	sentinel, ok := byState[pg.Code]
	if !ok || errors.Is(err, sentinel) {
		return err
	}
	return &serverError{sentinel: sentinel, pg: pg, cause: err}
}

// isMissing reports whether a schema or a function was not there.
func isMissing(pg *pgconn.PgError) bool { return pg.Code == "3F000" || pg.Code == "42883" }

func notInstalled(err error) error {
	return fmt.Errorf("%w: run «pgid migrate up»: %w", ErrNotInstalled, err)
}

type serverError struct {
	sentinel error
	pg       *pgconn.PgError
	cause    error
}

func (e *serverError) Error() string {
	text := fmt.Sprintf("pgid: %s (SQLSTATE %s)", e.pg.Message, e.pg.Code)
	if e.pg.Hint != "" {
		text += ": " + e.pg.Hint
	}
	return text
}

func (e *serverError) Unwrap() []error { return []error{e.sentinel, e.cause} }
