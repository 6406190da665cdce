package postgresids_test

import (
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// A range that was found too far ahead, and so not taken, is refused, also where configure
// allows it while the call is under way: what is not taken must not be handed out.
func TestConfigureWhileARangeIsRefused(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shard(5); SELECT pgid.advance_shard(5, pgid.max_id(clock_timestamp() + interval '30 s'))")
	sitter, conn := db.Connect(t), db.Connect(t)
	if _, err := sitter.Exec(t.Context(), "BEGIN; SELECT pg_advisory_xact_lock(pgid.lock_class(), 5)"); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		first, last pgid.ID
		err         error
	}
	done := make(chan answer)
	go func() {
		var a answer
		a.err = conn.QueryRow(t.Context(), "SELECT * FROM pgid.reserve(5, 10)").Scan(&a.first, &a.last)
		done <- a
	}()
	for start := time.Now(); time.Since(start) < 10*time.Second; time.Sleep(time.Millisecond) {
		if pgtest.Query[bool](t, db, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event = 'PgSleep' AND query LIKE 'SELECT * FROM pgid.reserve%')`) {
			break
		}
	}
	db.Exec(t, "SELECT pgid.configure(max_lead_ms => 60000)")
	if _, err := sitter.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	under := <-done
	var after answer
	if err := conn.QueryRow(t.Context(), "SELECT * FROM pgid.reserve(5, 10)").Scan(&after.first, &after.last); err != nil {
		t.Fatal(err)
	}
	if under.err == nil && after.first <= under.last {
		t.Errorf("%d to %d twice: then %d to %d", under.first, under.last, after.first, after.last)
	}
	if under.err != nil && pgtest.SQLState(under.err) != "ID001" {
		t.Error(under.err)
	}
}
