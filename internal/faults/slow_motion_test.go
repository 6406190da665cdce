package faults

import (
	"regexp"
	"strings"
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
)

// statementEnd is where a statement of a PL/pgSQL body ends.
var statementEnd = regexp.MustCompile(`(?m);( --.*)?$`)

// slowMotion redefines functions of pgid so that they pause, for up to so many
// milliseconds, after each of their statements: whatever comes in between, which else is
// a matter of microseconds, now comes often.
func slowMotion(t testing.TB, db *pgtest.Database, millis string, functions ...string) {
	t.Helper()
	for _, name := range functions {
		source := pgtest.Query[string](t, db,
			"SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'pgid'::regnamespace AND proname = $1", name)
		head, body, ok := strings.Cut(source, "\nBEGIN\n")
		if !ok {
			t.Fatalf("no body in pgid.%s", name)
		}
		// Also between reading the counter and setting base by it, in one statement.
		body = strings.ReplaceAll(body, "pgid.read_sequence(counter_seq, 0))",
			"pgid.read_sequence(counter_seq, 0) + length(pg_sleep("+millis+" * random() / 1000)::text))")
		slow := statementEnd.ReplaceAllString(body, "; PERFORM pg_sleep("+millis+" * random() / 1000);")
		db.Exec(t, head+"\nBEGIN\n"+slow)
	}
}
