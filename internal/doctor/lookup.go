package doctor

import "context"

// refreshLookup makes the lookup show the shards that exist.
const refreshLookup = "BEGIN; LOCK TABLE pgid.shard IN SHARE ROW EXCLUSIVE MODE; SELECT pgid.refresh_lookup(); COMMIT;"

// checkLookup looks at the functions that are data: does each shard's number lead to its
// sequences, and every other number to none?
func (e *exam) checkLookup(ctx context.Context) error {
	type row struct {
		Number        int
		Base, Counter *string
		Exists        bool
	}
	wrong, err := collect[row](ctx, e, `
		SELECT n, found.base::text, found.counter::text, own.base IS NOT NULL
		  FROM generate_series(-1, 8192) AS n
		 CROSS JOIN LATERAL (SELECT to_regclass('pgid.base_' || n) AS base, to_regclass('pgid.counter_' || n) AS counter) AS own
		 CROSS JOIN LATERAL (SELECT pgid.base_sequence(n) AS base, pgid.counter_sequence(n) AS counter) AS found
		 WHERE CASE
		         WHEN own.base IS NOT NULL
		         THEN found.base IS DISTINCT FROM own.base OR found.counter IS DISTINCT FROM own.counter
		         ELSE found.base <> 'pgid.base_none'::regclass OR found.counter <> 'pgid.counter_none'::regclass
		       END
		 ORDER BY n`)
	if err != nil {
		return err
	}
	for _, w := range wrong {
		if w.Exists && w.Base == nil && w.Counter == nil {
			e.add(Warning, refreshLookup, "the lookup does not show shard %d: each ID takes the slow way", w.Number)
		} else {
			e.add(Error, refreshLookup, "the lookup leads from shard %d to %s and %s", w.Number, nameOf(w.Base), nameOf(w.Counter))
		}
	}
	unnamed, err := collect[struct{ Name string }](ctx, e, `
		SELECT c.oid::regclass::text
		  FROM pg_class AS c
		 WHERE c.relnamespace = 'pgid'::regnamespace
		   AND c.relkind = 'S'
		   AND c.relname ~ '^(base|counter)_(none|[0-9]+)$'
		   AND c.oid <> ALL (pgid.sequences())
		 ORDER BY c.oid`)
	if err != nil {
		return err
	}
	for _, u := range unnamed {
		e.add(Warning, refreshLookup, "pgid.sequences() does not name %s: a dump may not be restorable", u.Name)
	}
	stand, err := one[struct{ InUse bool }](ctx, e, "SELECT pg_sequence_last_value('pgid.base_none'::regclass) IS NOT NULL")
	if err != nil {
		return err
	}
	if stand.InUse {
		e.add(Error, "SELECT setval('pgid.base_none', 1, false);", "base_none, which stands in for shards that do not exist, was set: it must have no value")
	}
	if len(wrong)+len(unnamed) == 0 && !stand.InUse {
		e.ok("each shard's number leads to its sequences")
	}
	return nil
}

func nameOf(sequence *string) string {
	if sequence == nil {
		return "none"
	}
	return *sequence
}
