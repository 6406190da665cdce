package doctor

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// errStop is returned by a check after which no other makes sense. It has said why.
var errStop = errors.New("nothing more to examine")

// SQLSTATEs that keep a check from its work.
const (
	insufficientPrivilege = "42501"
	queryCanceled         = "57014"
	lockNotAvailable      = "55P03"
)

// A deniedError names a sequence that the role may not read.
type deniedError struct{ sequence string }

func (err deniedError) Error() string { return "permission denied for sequence " + err.sequence }

// failed notes that the check under way could not be made.
func (e *exam) failed(err error) {
	fix := "mend that, then examine again"
	var pg *pgconn.PgError
	var denied deniedError
	switch {
	case errors.As(err, &denied), errors.As(err, &pg) && pg.Code == insufficientPrivilege:
		fix = "connect as the owner of the schema pgid, or as a superuser"
	case isTimeout(err):
		fix = "examine again with a longer --timeout, or when the database is less busy"
	}
	e.add(Warning, fix, "not examined: %s", oneLine(err))
}

func isTimeout(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == queryCanceled || pg.Code == lockNotAvailable)
}

func oneLine(err error) string {
	var pg *pgconn.PgError
	text := err.Error()
	if errors.As(err, &pg) {
		text = pg.Message + " (SQLSTATE " + pg.Code + ")"
	}
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }), " ")
}
