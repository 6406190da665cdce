package pgid_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nextid/postgres-ids/pgid"
)

// sentinels are the errors of the contract that have a SQLSTATE.
var sentinels = map[string]error{
	"ID001": pgid.ErrClockBehind,
	"ID002": pgid.ErrNoShard,
	"ID003": pgid.ErrShardRetired,
	"ID004": pgid.ErrTimeExhausted,
	"ID005": pgid.ErrShardBusy,
	"ID006": pgid.ErrPoolExhausted,
	"ID007": pgid.ErrLeaseLost,
	"22023": pgid.ErrOutOfRange,
	"22004": pgid.ErrNullShard,
	"22008": pgid.ErrTimeRange,
}

func TestError(t *testing.T) {
	t.Parallel()
	for code, sentinel := range sentinels {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			pg := &pgconn.PgError{Code: code, Message: "the message", Hint: "The hint."}
			cause := fmt.Errorf("insert: %w", pg)
			err := pgid.Error(cause)
			for other, want := range sentinels {
				if got := errors.Is(err, want); got != (other == code) {
					t.Errorf("errors.Is(err, %v) = %t", want, got)
				}
			}
			if !errors.Is(err, sentinel) || !errors.Is(err, cause) {
				t.Errorf("%v does not hold %v and its cause", err, sentinel)
			}
			var got *pgconn.PgError
			if !errors.As(err, &got) || got != pg {
				t.Errorf("the *PgError is %v", got)
			}
			text := err.Error()
			if !strings.Contains(text, pg.Message) || !strings.Contains(text, code) || !strings.HasSuffix(text, pg.Hint) {
				t.Errorf("the text %q lacks the message, the state or the hint", text)
			}
			// Wrapped once, it stays as it is.
			if again := pgid.Error(err); again != err { //nolint:errorlint // identity is meant
				t.Errorf("wrapped twice: %#v", again)
			}
			if outer := fmt.Errorf("outer: %w", err); pgid.Error(outer) != outer { //nolint:errorlint // identity is meant
				t.Error("wrapped twice through another error")
			}
		})
	}
}

func TestErrorOfOthers(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"nil":               nil,
		"not a PgError":     errors.New("other"),
		"a context's":       context.Canceled,
		"unique violation":  &pgconn.PgError{Code: "23505"},
		"a state like ours": &pgconn.PgError{Code: "ID099"},
		"no state":          &pgconn.PgError{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := pgid.Error(err); got != err { //nolint:errorlint // identity is meant
				t.Errorf("%v became %v", err, got)
			}
		})
	}
}

func TestErrorWithoutHint(t *testing.T) {
	t.Parallel()
	err := pgid.Error(&pgconn.PgError{Code: "ID002", Message: "shard 5 does not exist"})
	if want := "pgid: shard 5 does not exist (SQLSTATE ID002)"; err.Error() != want {
		t.Errorf("text %q, want %q", err, want)
	}
}
