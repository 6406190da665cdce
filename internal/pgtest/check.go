package pgtest

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Seed is PGID_TEST_SEED, or a new one that is printed, to run a failure again.
func Seed(t testing.TB) *rand.Rand {
	t.Helper()
	s, err := strconv.ParseUint(os.Getenv("PGID_TEST_SEED"), 10, 64)
	if err != nil {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("PGID_TEST_SEED=%d", s)
	return rand.New(rand.NewPCG(s, 0))
}

// SQLState is the SQLSTATE of an error, its text if it has none, "" for no error.
func SQLState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
