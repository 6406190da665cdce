package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nextid/postgres-ids/internal/display"
	"github.com/nextid/postgres-ids/internal/tempdb"
	"github.com/nextid/postgres-ids/pgid"
)

// SQLSTATEs of PostgreSQL's own that the command line has something to say about.
const (
	insufficientPrivilege = "42501"
	dependentObjects      = "2BP01"
)

// permissionError adds to a lack of permission what the role would need.
func permissionError(err error, need string) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == insufficientPrivilege {
		return fmt.Errorf("%w: %s", err, need)
	}
	return err
}

// errorLine is an error as the one line that people read: the prefix once, the
// server's hint, no newline.
func errorLine(err error) string {
	return "pgid: " + unprefixed(fold(shortConnect(err, withHint(err))))
}

// shortConnect puts, in an error's text, one reason in place of all that pgx has tried.
func shortConnect(err error, text string) string {
	var failed *pgconn.ConnectError
	if !errors.As(err, &failed) {
		return text
	}
	short := fmt.Sprintf("cannot connect to %s as %s: %s: start the server, or correct the URL",
		display.Address(failed.Config), failed.Config.User, display.ConnectReason(failed))
	return strings.Replace(text, failed.Error(), short, 1)
}

// interruptedLine is what is left to say when the user has stopped the command. The
// error itself is a consequence of that, unless something stayed behind.
func interruptedLine(err error) string {
	var left *tempdb.CleanupError
	if errors.As(err, &left) {
		return "pgid: interrupted: " + unprefixed(fold(left.Error()))
	}
	return "pgid: interrupted"
}

func withHint(err error) string {
	err = pgid.Error(err)
	text := err.Error()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Hint == "" || strings.Contains(text, pg.Hint) {
		return text
	}
	if pg.Code == dependentObjects {
		return text // the server's hint is to drop other people's objects along
	}
	return text + ": " + pg.Hint
}

// fold makes one line of many: "a:\n\tb\nc" is "a: b; c". A line like the one before
// it is left out: pgx tries an address with and without TLS, and reports both.
func fold(text string) string {
	var line strings.Builder
	last := ""
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		part = harmless(strings.TrimSpace(part))
		switch sofar := line.String(); {
		case part == "" || part == last:
			continue
		case sofar == "":
		case strings.HasSuffix(sofar, ":"):
			line.WriteString(" ")
		default:
			line.WriteString("; ")
		}
		line.WriteString(part)
		last = part
	}
	return line.String()
}

// harmless writes as Go does, \x1b for one, what a terminal would obey: a name may hold it.
func harmless(text string) string {
	var shown strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) || r == '\t' {
			shown.WriteRune(r)
		} else {
			shown.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return shown.String()
}

// unprefixed takes the prefix of package pgid from an error and from those that it
// wraps: it stands at the start of the line already.
func unprefixed(text string) string {
	prefix := regexp.MustCompile(`(^|: |; )(pgid: )+`)
	return prefix.ReplaceAllString(text, "$1")
}
