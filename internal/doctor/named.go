package doctor

import (
	"fmt"

	"github.com/nextid/postgres-ids/pgid"
)

// addNamed looks at a shard that a default or a setting names. instead is the statement
// that takes the name away; newest is the largest ID of the shard that is known to be in
// use, nil for none.
func (e *exam) addNamed(n int, how, instead string, newest *pgid.ID) {
	if n < 0 || n > int(pgid.MaxShard) {
		e.add(Error, instead, "shard %d is out of range, and %s", n, how)
		return
	}
	s := e.shard(n)
	if s == nil {
		fix := fmt.Sprintf("SELECT pgid.create_shard(%d);", n)
		if newest != nil {
			fix = fmt.Sprintf("SELECT pgid.create_shard(%d, %d);", n, *newest)
		}
		e.add(Error, fix, "shard %d does not exist (ID002), and %s", n, how)
		return
	}
	switch {
	case s.Retired || s.stopped():
		e.add(Error, instead+" -- and set it to a shard that issues IDs", "shard %d is retired (ID003), and %s", n, how)
	case s.Pool != nil:
		e.add(Warning, instead+" -- and set it to a shard that is in no pool",
			"shard %d is set apart for the leases of pool %s, which put it ahead of the clock (ID001), and %s", n, *s.Pool, how)
	}
}
