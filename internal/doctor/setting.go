package doctor

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"github.com/nextid/postgres-ids/pgid"
)

// An assignment is what ALTER DATABASE or ALTER ROLE has given to a parameter. Role and
// Database are "" where it holds for all.
type assignment struct {
	Role     string
	Database string
	Value    string
}

func (a assignment) String() string {
	switch {
	case a.Role == "" && a.Database == "":
		return "all roles"
	case a.Role == "":
		return "the database " + a.Database
	case a.Database == "":
		return "the role " + a.Role
	}
	return "the role " + a.Role + " in the database " + a.Database
}

// alter is the start of the statement that changes the assignment.
func (a assignment) alter() string {
	switch {
	case a.Role == "" && a.Database == "":
		return "ALTER ROLE ALL"
	case a.Role == "":
		return "ALTER DATABASE " + ident(a.Database)
	case a.Database == "":
		return "ALTER ROLE " + ident(a.Role)
	}
	return "ALTER ROLE " + ident(a.Role) + " IN DATABASE " + ident(a.Database)
}

func (a assignment) reset(parameter string) string {
	return fmt.Sprintf("%s RESET %s;", a.alter(), parameter)
}

// assignments are those of a parameter that hold in this database, the strongest first.
func (e *exam) assignments(ctx context.Context, name string) ([]assignment, error) {
	return collect[assignment](ctx, e, `
		SELECT CASE WHEN s.setrole = 0     THEN '' ELSE pg_get_userbyid(s.setrole)::text END,
		       CASE WHEN s.setdatabase = 0 THEN '' ELSE current_database()::text END,
		       substr(line, length($1::text) + 2)
		  FROM pg_db_role_setting AS s
		 CROSS JOIN unnest(s.setconfig) AS line
		 WHERE starts_with(line, $1::text || '=')
		   AND s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
		 ORDER BY s.setrole = 0, s.setdatabase = 0, 1`, name)
}

var shardNumber = regexp.MustCompile(`^[0-9]{1,4}$`)

// settingShard reads a value of pgid.shard as pgid.next_id() does.
func settingShard(value string) (int, bool) {
	n, err := strconv.Atoi(value)
	return n, err == nil && shardNumber.MatchString(value) && n <= int(pgid.MaxShard)
}

// checkSetting looks at the shards that the setting pgid.shard names, which is what
// pgid.next_id() draws from.
func (e *exam) checkSetting(ctx context.Context) error {
	if e.unread {
		return errUnread
	}
	assigned, err := e.assignments(ctx, "pgid.shard")
	if err != nil {
		return err
	}
	before := len(e.findings)
	for _, a := range assigned {
		n, valid := settingShard(a.Value)
		if !valid {
			e.add(Error, a.reset("pgid.shard"), "pgid.shard is %q for %s, which is no shard from 0 to 8191", a.Value, a)
			continue
		}
		if a.Database == "" && !e.exists(n) {
			e.add(Info, "", "pgid.shard is %d for %s in every database, and this one has no such shard", n, a)
			continue
		}
		e.named = append(e.named, n)
		e.addNamed(n, fmt.Sprintf("pgid.shard names it for %s", a), a.reset("pgid.shard"), nil)
	}
	if err := e.checkSession(ctx, assigned); err != nil {
		return err
	}
	if len(e.findings) == before {
		e.ok("pgid.shard is set %d times, and for shards that issue IDs", len(assigned))
	}
	return nil
}

// checkSession looks for a value that this session was handed, though it set none.
func (e *exam) checkSession(ctx context.Context, assigned []assignment) error {
	type row struct {
		Value string
		Role  string
	}
	r, err := one[row](ctx, e, "SELECT coalesce(current_setting('pgid.shard', true), ''), session_user::text")
	if err != nil {
		return err
	}
	own := ""
	for _, a := range assigned { // the strongest first
		if a.Role == "" || a.Role == r.Role {
			own = a.Value
			break
		}
	}
	if r.Value != own && r.Value != e.asked {
		e.add(Warning, "RESET pgid.shard; -- and behind a pooler use SET LOCAL, or ALTER DATABASE",
			"a new session has pgid.shard = %q, which no database or role was given: from postgresql.conf, or left in a pooled session by somebody", r.Value)
	}
	return nil
}
