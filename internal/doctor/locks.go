package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/nextid/postgres-ids/pgid"
)

type holder struct {
	Shard int64
	PID   int64
	State string
}

const readLocks = `
	SELECT l.objid::bigint, l.pid::bigint,
	       coalesce(concat_ws(' ', a.usename, nullif(a.application_name, ''), a.state), 'a session')
	  FROM pg_locks AS l
	  LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
	 WHERE l.locktype = 'advisory'
	   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	   AND l.classid = $1::bigint::oid
	   AND l.objid <= 8191
	   AND l.objsubid = 2
	   AND l.granted
	 ORDER BY 1`

// What holds a shard's lock for its purpose holds it for microseconds: a session that
// has it at each of so many looks has not let go of it.
const (
	looks         = 10
	betweenLooks  = 100 * time.Millisecond
	lockStaysHeld = "shard %d is locked by process %d (%s) for longer than any call takes: calls give up (ID005)"
)

// checkLocks looks for a shard's lock that somebody keeps.
func (e *exam) checkLocks(ctx context.Context) error {
	type held struct{ shard, pid int64 }
	kept := make(map[held]holder)
	for look := range looks {
		holders, err := collect[holder](ctx, e, readLocks, lockClass)
		if err != nil {
			return err
		}
		still := make(map[held]holder)
		for _, h := range holders {
			key := held{h.Shard, h.PID}
			if _, before := kept[key]; before || look == 0 {
				still[key] = h
			}
		}
		if kept = still; len(kept) == 0 {
			break
		}
		if err := (pgid.SystemClock{}).Sleep(ctx, betweenLooks); err != nil {
			return err
		}
	}
	for _, h := range kept {
		e.add(Error, fmt.Sprintf("SELECT pg_terminate_backend(%d);", h.PID), lockStaysHeld, h.Shard, h.PID, h.State)
	}
	if len(kept) == 0 {
		e.ok("no session keeps a shard's lock")
	}
	return nil
}
