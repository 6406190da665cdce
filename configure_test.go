package postgresids_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

// settings is max_lead, max_wait and epoch, as configure reports them and as settings()
// does, which must be the same.
func settings(t *testing.T, db *pgtest.Database, configure string) string {
	t.Helper()
	const text = "max_lead_ms || ' ' || max_wait_ms || ' ' || epoch_ms"
	said := pgtest.Query[string](t, db, "SELECT "+text+" FROM "+configure)
	if stands := pgtest.Query[string](t, db, "SELECT "+text+" FROM pgid.settings()"); stands != said {
		t.Errorf("%s says %s, settings() says %s", configure, said, stands)
	}
	return said
}

// configure changes what it is told to, within the ranges, and leaves the rest.
func TestConfigure(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const epoch, most = 1767225600000, int64(1) << 40
	for _, c := range []struct{ call, want string }{
		{"pgid.configure()", "100 1000 1767225600000"},
		{"pgid.configure(1, 0)", "1 0 1767225600000"},
		{"pgid.configure(max_lead_ms => 3600000)", "3600000 0 1767225600000"},
		{"pgid.configure(max_wait_ms => 3600000)", "3600000 3600000 1767225600000"},
		{"pgid.configure(NULL, NULL, NULL)", "3600000 3600000 1767225600000"},
		{"pgid.configure(epoch_ms => 1288834974657)", "3600000 3600000 1288834974657"},
		{"pgid.configure(20, 200, 1767225600000)", "20 200 1767225600000"},
	} {
		for range 2 { // what stands already may be set again
			if got := settings(t, db, c.call); got != c.want {
				t.Errorf("%s: %s, want %s", c.call, got, c.want)
			}
		}
	}
	before := time.Now().UnixMilli()
	oldest := before - most + 1
	for _, c := range []struct{ args, says string }{
		{"0", "max_lead_ms 0 "}, {"-1", "max_lead_ms -1 "}, {"3600001", "max_lead_ms 3600001 "},
		{"NULL, -1", "max_wait_ms -1 "}, {"5, 3600001", "max_wait_ms 3600001 "},
		{fmt.Sprintf("5, 5, %d", before+60_000), "epoch_ms "},
		{fmt.Sprintf("5, 5, %d", oldest-60_000), fmt.Sprintf("epoch_ms %d ", oldest-60_000)},
		{"5, 5, -9223372036854775808", "epoch_ms -9223372036854775808 "}, {"5, 5, 9223372036854775807", "epoch_ms 9223372036854775807 "},
	} {
		_, err := db.Pool.Exec(t.Context(), "SELECT pgid.configure("+c.args+")")
		if pgtest.SQLState(err) != "22023" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("configure(%s): %v, want 22023 and «%s»", c.args, err, c.says)
		}
	}
	if got := settings(t, db, "pgid.configure()"); got != "20 200 1767225600000" { // all or nothing
		t.Errorf("after calls that were refused: %s", got)
	}
	for _, at := range []int64{oldest + 60_000, before} { // nearly at the ends of the range
		db.Exec(t, "SELECT pgid.configure(epoch_ms => $1)", at)
	}
	db.Exec(t, "SELECT pgid.configure(epoch_ms => $1)", epoch)

	conn := pgtest.Connect(t, db.As(db.Role(t)))
	if _, err := conn.Exec(t.Context(), "SELECT pgid.configure()"); pgtest.SQLState(err) != "42501" {
		t.Errorf("as another role: %v, want 42501", err)
	}
	// By a superuser, the functions stay the owner's, and callable as they were.
	super := pgtest.Connect(t, db.SuperURL)
	if _, err := super.Exec(t.Context(), "SELECT pgid.configure(30, 300, 1767225600001)"); err != nil {
		t.Error(err)
	}
	db.Exec(t, "SELECT pgid.configure(20, 200, $1)", epoch)
	if _, err := conn.Exec(t.Context(), "SELECT pgid.max_lead_ms(), pgid.max_wait_ms(), pgid.epoch_ms()"); err != nil {
		t.Error(err)
	}

	// A rollback takes it back.
	if _, err := db.Pool.Exec(t.Context(), "BEGIN; SELECT pgid.configure(7, 7, 7); ROLLBACK"); err == nil {
		t.Error("an epoch of 1970 is more than 34.8 years ago")
	}
	db.Exec(t, "BEGIN; SELECT pgid.configure(7, 7); ROLLBACK")
	if got := settings(t, db, "pgid.configure()"); got != "20 200 1767225600000" {
		t.Errorf("after a rollback: %s", got)
	}
}

// The epoch stays while a shard stands, known to the table or not.
func TestConfigureEpochWithShards(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.configure(epoch_ms => 1700000000000)")
	db.Exec(t, "SELECT pgid.create_shard(8191)")
	for _, prepare := range []string{"SELECT", "DELETE FROM pgid.shard" /* as a dump without data leaves it */} {
		db.Exec(t, prepare)
		_, err := db.Pool.Exec(t.Context(), "SELECT pgid.configure(5, 5, 1700000000001)")
		if pgtest.SQLState(err) != "55000" || !strings.Contains(err.Error(), "epoch") {
			t.Errorf("after %s: %v, want 55000", prepare, err)
		}
		if got := settings(t, db, "pgid.configure(50, NULL, 1700000000000)"); got != "50 1000 1700000000000" {
			t.Errorf("the epoch as it stands, and a lead: %s", got)
		}
	}
}

// Limits that change are the limits, for sessions that have planned and prepared
// everything before as for new ones.
func TestConfigureTakesEffect(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, "SELECT pgid.create_shards(0, 9)")
	conn := db.Connect(t)
	var id pgid.ID
	for range 20 { // generic plans, prepared statements
		for _, sql := range []string{"SELECT pgid.next_id(0)", "SELECT last FROM pgid.reserve(0, 2)", "SELECT max(id) FROM pgid.next_ids(0, 2) AS id"} {
			if err := conn.QueryRow(t.Context(), sql).Scan(&id); err != nil {
				t.Fatal(err)
			}
		}
	}
	took := func(want, sql string, args ...any) time.Duration {
		t.Helper()
		start := time.Now()
		if _, err := conn.Exec(t.Context(), sql, args...); pgtest.SQLState(err) != want {
			t.Errorf("%s: %v, want %q", sql, err, want)
		}
		return time.Since(start)
	}
	// raised makes a call for a shard whose last tick is so far ahead of the clock.
	raised := func(shard, lead int, call string) string {
		return fmt.Sprintf("SELECT %s FROM (SELECT pgid.raise_shard(%d, (pgid.now_ms() + %d) << 10)) AS raised", fmt.Sprintf(call, shard), shard, lead)
	}
	const next, reserve = "pgid.next_id(%d)", "pgid.reserve(%d, 10)"
	for i, call := range []string{next, reserve} {
		db.Exec(t, "SELECT pgid.configure(100, 1000)")
		took("ID001", raised(4*i+1, 10_000, call))
		db.Exec(t, "SELECT pgid.configure(12000, 0)") // now within the lead
		if d := took("", raised(4*i+1, 10_000, call)); d > 5*time.Second {
			t.Errorf("%s waited %s within the lead", call, d)
		}
		db.Exec(t, "SELECT pgid.configure(1, 0)") // not to wait at all
		if d := took("ID001", raised(4*i+2, 10_000, call)); d > 5*time.Second {
			t.Errorf("%s was refused after %s", call, d)
		}
		db.Exec(t, "SELECT pgid.configure(NULL, 5000)")
		if d := took("", raised(4*i+3, 600, call)); d < 500*time.Millisecond {
			t.Errorf("%s went on after %s, with a lead of 600 ms of which 1 is allowed", call, d)
		}
	}

	// The largest batch is what the lead holds.
	for lead, most := range map[int]int{1: 1024, 3: 3072, 3600: 3_686_400} {
		db.Exec(t, "SELECT pgid.configure($1, 5000)", lead)
		took("22023", "SELECT pgid.reserve(9, $1)", most+1)
		took("22023", "SELECT pgid.next_ids(9, $1)", most+1)
		took("", "SELECT pgid.reserve(9, $1)", most)
		if client := pgid.NewClient(conn); lead < 3600 {
			if s, err := client.Settings(t.Context()); err != nil || s.Limits != (pgid.Limits{MaxLead: time.Duration(lead) * time.Millisecond, MaxWait: 5 * time.Second}) {
				t.Errorf("the client reads %+v, %v", s, err)
			}
			if ids, err := client.NextIDs(t.Context(), 8, most); err != nil || len(ids) != most {
				t.Errorf("%d IDs at a lead of %d ms: %v", most, lead, err)
			}
		}
	}
	db.Exec(t, "SELECT pgid.configure(3600000, 0)") // 3,686,400,000 is more than an integer
	took("22023", "SELECT pgid.reserve(9, 0)")
	took("", "SELECT pgid.reserve(9, 1000000)")
}

// configure and create_shard at once: a shard never has IDs of two epochs, and nobody
// gets an error but that the epoch is fixed.
func TestConfigureAtOnce(t *testing.T) {
	t.Parallel()
	for round := range 5 {
		db := pgtest.New(t)
		var group errgroup.Group
		for i := range 8 {
			conn := db.Connect(t)
			group.Go(func() error {
				var err error
				if i%2 == 1 {
					var id pgid.ID
					var settled int64
					if _, err = conn.Exec(context.Background(), "SELECT pg_sleep($1 / 1000.0), pgid.create_shard($2)", round, i); err != nil {
						return fmt.Errorf("create_shard: %w", err)
					}
					err = conn.QueryRow(context.Background(), "SELECT pgid.next_id($1), pgid.epoch_ms()", i).Scan(&id, &settled)
					if at := (int64(id) >> 23) + settled; err == nil && time.Since(time.UnixMilli(at)).Abs() > time.Minute {
						err = fmt.Errorf("shard %d issued an ID of %s under the epoch %d", i, time.UnixMilli(at), settled)
					}
				} else {
					_, err = conn.Exec(context.Background(), "SELECT pgid.configure($1, $2, $3)", 100+i, 1000+i, 1767225600000-int64(i)*86_400_000)
					if pgtest.SQLState(err) == "55000" {
						err = nil
					}
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		var id pgid.ID
		for shard := range 4 {
			err := db.Pool.QueryRow(t.Context(), "SELECT pgid.next_id($1)", 2*shard+1).Scan(&id)
			if err != nil && !errors.Is(err, pgx.ErrNoRows) {
				t.Error(err)
			}
		}
	}
}
