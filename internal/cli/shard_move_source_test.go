package cli

import (
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
)

// A lease that is being granted while the move looks is seen before the retirement.
func TestMoveSeesALeaseBeingGranted(t *testing.T) {
	t.Parallel()
	source, target := databases(t)
	target.Exec(t, "SELECT pgid.configure(max_lead_ms => 3600000)") // the window is no reason to wait
	source.Exec(t, "SELECT pgid.create_pool('p', 5, 5)")
	tx := openTransaction(t, source)
	if _, err := tx.Exec(t.Context(), "SELECT pgid.acquire_lease('p', 'web-1', 600000)"); err != nil {
		t.Fatal(err)
	}
	done := start(t.Context(), moveArgs(source, target)...)
	eventually(t, "the move does not wait for the grant", func() bool {
		return pgtest.Query[bool](t, source, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%FROM pgid.lease%')`)
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	(<-done).fails(t, "web-1 holds a lease of shard 5", "nothing was touched")
	if isRetired(t, source) {
		t.Error("the source is retired")
	}
}

// What a move relies on is flushed when it is committed, on either side, whatever the
// databases have set.
func TestMoveIsFlushed(t *testing.T) {
	t.Parallel()
	source, target := databases(t)
	draw(t, source)
	for _, db := range []*pgtest.Database{source, target} {
		db.Exec(t, `CREATE TABLE public.seen (setting text);
			CREATE FUNCTION public.look() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN
			  INSERT INTO public.seen VALUES (current_setting('synchronous_commit'));
			  RETURN new;
			END $$;
			CREATE TRIGGER look BEFORE INSERT OR UPDATE ON pgid.shard FOR EACH ROW EXECUTE FUNCTION public.look();
			DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$`)
	}
	run(t, nil, "", moveArgs(source, target)...).prints(t)
	for name, db := range map[string]*pgtest.Database{"source": source, "target": target} {
		if got := pgtest.Query[string](t, db, "SELECT coalesce(string_agg(DISTINCT setting, ', '), 'nothing') FROM public.seen"); got != "on" {
			t.Errorf("the %s wrote with synchronous_commit %s", name, got)
		}
	}
}
