package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// lockClass is the class of the shards' advisory locks: pgid.lock_class().
const lockClass = 1885825380

const (
	endOfTicks   = 1 << 50 // the first tick that is none
	retiringBase = 1 << 51 // pgid.retiring_base()
	retiredBase  = 1 << 52 // pgid.retired_base()
)

// A shard as its row and its sequences have it.
type shard struct {
	Number     int
	Row        bool // in pgid.shard
	Retired    bool // by the row
	HasBase    bool
	HasCounter bool
	Pool       *string
	Base       *int64
	Counter    *int64
}

// stopped reports whether the shard issues nothing, whatever its row says.
func (s shard) stopped() bool { return s.Base != nil && *s.Base >= retiringBase }

// halfway reports whether its retirement was interrupted between its two steps.
func (s shard) halfway() bool { return s.stopped() && *s.Base < retiredBase }

// floor is the tick that the shard's next ID exceeds: its last, or one that it was raised
// to before it drew any. It is -1 for a new shard.
func (s shard) floor() int64 {
	var base, counter int64 = -1, 0
	switch {
	case s.halfway():
		base = *s.Base - retiringBase - 1
	case s.stopped():
		return *s.Base - retiredBase - 1
	case s.Base != nil:
		base = *s.Base
	}
	if s.Counter != nil {
		counter = *s.Counter
	}
	return min(base+counter, endOfTicks-1)
}

// open reports whether the shard issues IDs to whoever asks.
func (s shard) open() bool { return !s.Retired && !s.stopped() && s.HasBase && s.HasCounter }

const readShards = `
	SELECT n, s.shard IS NOT NULL, s.retired IS NOT NULL, b.oid IS NOT NULL, c.oid IS NOT NULL, l.pool, NULL::bigint, NULL::bigint
	  FROM generate_series(0, 8191) AS n
	  LEFT JOIN pgid.shard AS s ON s.shard = n
	  LEFT JOIN pgid.lease AS l ON l.shard = n
	  LEFT JOIN pg_class AS b ON b.relname = 'base_' || n    AND b.relnamespace = 'pgid'::regnamespace AND b.relkind = 'S'
	  LEFT JOIN pg_class AS c ON c.relname = 'counter_' || n AND c.relnamespace = 'pgid'::regnamespace AND c.relkind = 'S'
	 WHERE coalesce(s.shard, l.shard) IS NOT NULL
	    OR b.oid IS NOT NULL
	    OR c.oid IS NOT NULL
	 ORDER BY n`

// A transaction locks each sequence that it reads, and the lock table is finite.
const sequencesAtOnce = 1000

// readState reads the sequences of shards, the base first: what is drawn meanwhile can
// only make a shard's last tick look older than it is.
func (e *exam) readState(ctx context.Context, shards []shard) error {
	type row struct {
		Number  int
		Base    *int64
		Counter *int64
		Denied  *string
	}
	for first := 0; first < len(shards); first += sequencesAtOnce {
		part := shards[first:min(first+sequencesAtOnce, len(shards))]
		numbers := make([]int32, len(part))
		for i, s := range part {
			numbers[i] = int32(s.Number)
		}
		rows, err := collect[row](ctx, e, `
			SELECT n, pg_sequence_last_value(base), pg_sequence_last_value(counter),
			       CASE
			         WHEN NOT has_sequence_privilege(base, 'SELECT, USAGE')    THEN base::text
			         WHEN NOT has_sequence_privilege(counter, 'SELECT, USAGE') THEN counter::text
			       END
			  FROM unnest($1::integer[]) WITH ORDINALITY AS s (n, i),
			       LATERAL (SELECT to_regclass('pgid.base_' || n) AS base, to_regclass('pgid.counter_' || n) AS counter) AS q
			 ORDER BY i`, numbers)
		if err != nil {
			return err
		}
		for i, r := range rows {
			if r.Denied != nil {
				return deniedError{*r.Denied} // PostgreSQL 17 and later make NULL of it
			}
			part[i].Base, part[i].Counter = r.Base, r.Counter
		}
	}
	return nil
}

// shard is one of the shards as they were read, nil if the database has none of that number.
func (e *exam) shard(n int) *shard {
	i, found := slices.BinarySearchFunc(e.shards, n, func(s shard, n int) int { return s.Number - n })
	if !found {
		return nil
	}
	return &e.shards[i]
}

// exists reports whether the database has a shard's base, without which it is none.
func (e *exam) exists(n int) bool {
	s := e.shard(n)
	return s != nil && s.HasBase
}

// isBehind reports whether a shard remembers less than a tick, as it is now: what was read
// of it before may be older than what told of the tick.
func (e *exam) isBehind(ctx context.Context, n int, tick int64) (bool, error) {
	now := []shard{{Number: n}}
	err := e.readState(ctx, now)
	return err == nil && now[0].floor() < tick, err
}

// errUnread is what a check says that has to know the shards.
var errUnread = errors.New("the shards could not be read")

// checkShards compares the table of shards with their sequences.
func (e *exam) checkShards(ctx context.Context) error {
	shards, err := collect[shard](ctx, e, readShards)
	if err == nil {
		err = e.readState(ctx, shards)
	}
	if err != nil {
		e.unread = true
		return err
	}
	e.shards = shards
	before := len(e.findings)
	active, stopped := 0, 0
	for _, s := range shards {
		e.addShard(s)
		if s.stopped() {
			stopped++
		} else if s.HasBase {
			active++
		}
	}
	if len(e.findings) == before {
		e.ok("%d shards that issue IDs, %d retired", active, stopped)
	}
	return nil
}

func (e *exam) addShard(s shard) {
	n := s.Number
	switch {
	case s.HasBase && !s.HasCounter:
		e.add(Error, fmt.Sprintf("CREATE SEQUENCE pgid.counter_%d AS bigint MINVALUE 1 START 1 CACHE 1; %s", n, refreshLookup),
			"shard %d has lost the sequence counter_%d, and with it how far it has drawn: compare with your tables", n, n)
	case !s.HasBase && s.HasCounter:
		e.add(Error, fmt.Sprintf("CREATE SEQUENCE pgid.base_%d AS bigint MINVALUE -1 START -1 CACHE 1; %s", n, refreshLookup),
			"shard %d has lost the sequence base_%d, and with it how far it has drawn: compare with your tables", n, n)
	case !s.HasBase && s.Retired:
		e.add(Info, "", "shard %d is retired, and its sequences are gone", n)
	case !s.HasBase:
		e.add(Error, fmt.Sprintf("SELECT pgid.create_shard(%d);", n), "shard %d is in the table pgid.shard, but its sequences are missing", n)
	case s.Retired && !s.stopped():
		e.add(Error, fmt.Sprintf("SELECT pgid.retire_shard(%d);", n), "shard %d was retired, but its sequences issue IDs: as after a restore without data", n)
	case s.halfway():
		e.add(Warning, fmt.Sprintf("SELECT pgid.retire_shard(%d);", n), "shard %d is stopped, but its retirement was interrupted", n)
	case s.stopped() && !s.Retired:
		e.add(Warning, fmt.Sprintf("SELECT pgid.retire_shard(%d);", n),
			"shard %d is stopped, but not noted as retired: the transaction that retired it was rolled back, which does not undo it", n)
	case !s.Row:
		e.add(Warning, fmt.Sprintf("SELECT pgid.create_shard(%d);", n), "shard %d issues IDs, but is not in the table pgid.shard", n)
	case s.Base != nil && *s.Base < -1:
		e.add(Error, fmt.Sprintf("SELECT setval('pgid.base_%d', -1);", n), "the base of shard %d is %d, below -1", n, *s.Base)
	}
}

// timeOf is the time of a tick.
func (e *exam) timeOf(tick int64) time.Time {
	return e.schema.epoch.Add(time.Duration(tick>>10) * time.Millisecond)
}
