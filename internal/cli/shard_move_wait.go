package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nextid/postgres-ids/internal/display"
	"github.com/nextid/postgres-ids/pgid"
)

const pollInterval = 100 * time.Millisecond

// A running transaction is named by its virtual ID, which does not come again while
// the server runs, and by the process that it is for.
type running struct {
	VirtualID string
	PID       int32
}

// inFlight are the transactions that are waited for: those that were there at first,
// and what becomes of them.
type inFlight struct {
	running  []running
	prepared []string    // the names of prepared transactions
	seen     [2][]string // all prepared transactions at the last look but one, and at the last
}

func newInFlight(now []running, prepared []string) *inFlight {
	return &inFlight{running: now, prepared: prepared, seen: [2][]string{prepared, prepared}}
}

// update takes in a later look. A transaction that is not running any more may have
// been prepared: what is new there is waited for, too. That it was running at the last
// look does not keep it from having been seen as prepared in the same one, later.
func (f *inFlight) update(now []running, prepared []string) {
	before := len(f.running)
	f.running = slices.DeleteFunc(f.running, func(r running) bool { return !slices.Contains(now, r) })
	waited := f.prepared
	f.prepared = nil
	for _, name := range prepared {
		isNew := !slices.Contains(f.seen[0], name) && len(f.running) < before
		if isNew || slices.Contains(waited, name) {
			f.prepared = append(f.prepared, name)
		}
	}
	f.seen = [2][]string{f.seen[1], prepared}
}

func (f *inFlight) count() int { return len(f.running) + len(f.prepared) }

// String names them: by their processes, which can be asked, or ended.
func (f *inFlight) String() string {
	const most = 10 // in one line
	var names []string
	add := func(kind string, list []string) {
		if len(list) > most {
			list = append(list[:most:most], fmt.Sprintf("%d more", len(list)-most))
		}
		if len(list) > 0 {
			names = append(names, kind+" "+strings.Join(list, ", "))
		}
	}
	pids := make([]string, len(f.running))
	for i, r := range f.running {
		pids[i] = strconv.Itoa(int(r.PID))
	}
	add("pid", pids)
	add("prepared", f.prepared)
	return strings.Join(names, "; ")
}

// waitForOthers waits until the transactions that are in flight at the source have
// ended, all but our own: any of them may have drawn an ID before the retirement.
func (m *move) waitForOthers(ctx context.Context) error {
	if m.wait == 0 {
		return nil
	}
	line := display.NewLine(m.progress())
	defer line.Clear()
	start := time.Now()
	now, prepared, err := transactions(ctx, m.source.conn)
	if err != nil {
		return m.source.failed(err)
	}
	flight := newInFlight(now, prepared)
	for flight.count() > 0 {
		waited := time.Since(start)
		if waited >= m.wait {
			return fmt.Errorf("after %s, transactions are still in flight at the source: %s: end them, or give them longer (--wait)", m.wait, flight)
		}
		line.Show("shard %d is retired; waited %s for transactions in flight: %s", m.shard, waited.Truncate(time.Second), flight)
		if err := (pgid.SystemClock{}).Sleep(ctx, min(pollInterval, m.wait-waited)); err != nil {
			return err
		}
		if now, prepared, err = transactions(ctx, m.source.conn); err != nil {
			return m.source.failed(err)
		}
		flight.update(now, prepared)
	}
	return nil
}

// transactions are those of the database's sessions, without this one's, and those that
// are prepared there. Every transaction holds the lock of its virtual ID. A maintenance
// process of the server has no user.
//
// The locks are read first: what is prepared meanwhile is in one of the two, or both.
func transactions(ctx context.Context, conn *pgx.Conn) (now []running, prepared []string, err error) {
	rows, err := conn.Query(ctx, `
		SELECT l.virtualtransaction, l.pid
		  FROM pg_locks AS l
		  JOIN pg_stat_activity AS a ON a.pid = l.pid
		 WHERE l.locktype = 'virtualxid' AND l.mode = 'ExclusiveLock' AND l.granted
		   AND a.datname = current_database() AND a.usesysid IS NOT NULL
		   AND l.pid <> pg_backend_pid()
		 ORDER BY l.pid`)
	if err == nil {
		now, err = pgx.CollectRows(rows, pgx.RowToStructByPos[running])
	}
	if err != nil {
		return nil, nil, err
	}
	rows, err = conn.Query(ctx, `
		SELECT quote_literal(gid) FROM pg_prepared_xacts WHERE database = current_database() ORDER BY gid`)
	if err == nil {
		prepared, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	return now, prepared, err
}
