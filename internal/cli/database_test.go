package cli

import (
	"strings"
	"testing"
)

func TestDatabasePrecedence(t *testing.T) {
	t.Parallel()
	const flag, own, shared = "postgres://h/flag", "postgres://h/own", "postgres://h/shared"
	tests := []struct {
		name, flag string
		env        map[string]string
		want       string
		wantErr    bool
	}{
		{"flag", flag, map[string]string{"PGID_DATABASE_URL": own, "DATABASE_URL": shared, "PGHOST": "h"}, flag, false},
		{"own variable", "", map[string]string{"PGID_DATABASE_URL": own, "DATABASE_URL": shared, "PGHOST": "h"}, own, false},
		{"shared variable", "", map[string]string{"DATABASE_URL": shared, "PGHOST": "h"}, shared, false},
		{"PGHOST", "", map[string]string{"PGHOST": "h"}, "", false},
		{"PGDATABASE", "", map[string]string{"PGDATABASE": "d"}, "", false},
		{"PGPORT", "", map[string]string{"PGPORT": "5432"}, "", false},
		{"nothing", "", nil, "", true},
		{"a password names nothing", "", map[string]string{"PGPASSWORD": "p"}, "", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := &app{Env: Env{Getenv: func(name string) string { return test.env[name] }}, databaseURL: test.flag}
			got, err := a.database()
			if got != test.want || (err != nil) != test.wantErr {
				t.Errorf("%q, %v, want %q", got, err, test.want)
			}
		})
	}
}

// The demo makes a database: only on a server that was named for pgid.
func TestOwnDatabase(t *testing.T) {
	t.Parallel()
	a := &app{Env: Env{Getenv: func(name string) string {
		return map[string]string{"DATABASE_URL": "postgres://h/shared", "PGHOST": "h"}[name]
	}}}
	if named, source := a.ownDatabase(); named != "" {
		t.Errorf("%q of %s, want none", named, source)
	}
}

func TestPasswordIsNeverShown(t *testing.T) {
	t.Parallel()
	for _, named := range []string{
		"postgres://u:hunter2@127.0.0.1:1/db",              // nobody listens
		"postgres://u:hunter2@127.0.0.1:1/db?sslmode=foo",  // a wrong value
		"postgres://u:hunter2@127.0.0.1:port/db",           // a malformed port
		"postgres://u:hun/hunter2@127.0.0.1/db",            // "/" in the password
		"postgres://u:hunter2%@127.0.0.1/db",               // a broken escape
		"postgres://u:hunter2 @127.0.0.1:1/db",             // a space
		"postgres://u:a@hunter2@127.0.0.1:1/db",            // "@" in the password
		"postgres://u:hunter2@[::1/db",                     // a broken host
		"postgres://u@127.0.0.1:1/db?password=hunter2&x=%", // in the query
		"host=127.0.0.1 port=1 user=u password=hunter2",
		"host=127.0.0.1 port=x user=u password=hunter2",
		"host=127.0.0.1 user=u password=a hunter2 x=y",
		"host=127.0.0.1 user=u password='hunter2",
		"hunter2",
		"mysql://u:hunter2@127.0.0.1:1/db",
	} {
		for _, command := range [][]string{{"next", "--shard", "5"}, {"migrate", "up"}, {"demo"}, {"bench"}} {
			r := run(t, map[string]string{"PGID_DATABASE_URL": named}, "", command...)
			r.fails(t)
			if strings.Contains(r.errOut, "hunter2") {
				t.Errorf("%s: %v shows the password: %s", named, command, r.errOut)
			}
		}
	}
}
