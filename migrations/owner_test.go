package migrations_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/migrations"
)

// What another role than the schema's owner makes in it, the functions may not use: a
// step by a superuser, or by a member of the owner, would break every call. It is
// refused, and nothing has changed.
func TestOnlyTheOwnerMigrates(t *testing.T) {
	t.Parallel()
	db := newVersion(t, 1)
	owner := pgtest.Query[string](t, db, "SELECT current_user")
	member := db.Role(t)
	super := pgtest.Connect(t, db.SuperURL)
	if _, err := super.Exec(t.Context(), "GRANT "+owner+" TO "+member); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "SELECT pgid.create_shard(5)")
	addresses := map[string]string{"a superuser": db.SuperURL, "a member of the owner": db.As(member)}

	db.Exec(t, "DROP TABLE "+migrations.Table) // a refusal leaves none of the other's own

	refused := func(who, what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "the schema pgid belongs to "+owner+", not to ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s by %s: %v, want one line that names the owner", what, who, err)
		}
	}
	for from := 1; from < latest; from++ {
		before := pgtest.Catalog(t, db)
		for who, address := range addresses {
			refused(who, "up", migrations.Up(t.Context(), address))
			refused(who, "down", migrations.Down(t.Context(), address))
			if from >= 2 { // the steps themselves have looked since the third
				_, err := pgtest.Connect(t, address).Exec(t.Context(), step(t, stepNames[from]+".up.sql"))
				refused(who, "the step up", err)
			}
		}
		if owners := pgtest.Query[string](t, db, "SELECT coalesce(string_agg(DISTINCT tableowner, ' '), '') FROM pg_tables WHERE tablename = $1", migrations.Table); owners != "" && owners != owner {
			t.Errorf("a refusal left a record of %s's", owners)
		}
		sameCatalog(t, "after steps that were refused", pgtest.Catalog(t, db), before)
		db.Exec(t, step(t, stepNames[from]+".up.sql"))
		record(t, db, from+1)
	}
	for who, address := range addresses {
		if err := migrations.Up(t.Context(), address); err != nil {
			t.Errorf("by %s, with nothing to do: %v", who, err)
		}
		_, err := pgtest.Connect(t, address).Exec(t.Context(), step(t, stepNames[latest-1]+".down.sql"))
		refused(who, "the step down", err)
	}

	for who, address := range addresses { // each becomes the owner
		downTo(t, db, 1)
		if err := migrations.Up(t.Context(), as(t, address, owner)); err != nil {
			t.Errorf("%s as the owner: %v", who, err)
		}
		if v := version(t, db); v != latest {
			t.Errorf("%s as the owner: version %d", who, v)
		}
		db.Exec(t, "SELECT pgid.next_id(5), pgid.next_ids(5, 10)")
	}
}

// as makes the role at a URL another one.
func as(t *testing.T, address, role string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("role", role)
	u.RawQuery = query.Encode()
	return u.String()
}
