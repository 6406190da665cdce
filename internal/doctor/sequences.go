package doctor

import (
	"context"
	"fmt"
	"math"
	"regexp"
)

// A sequence as the catalog has it, without its owner and rights: see checkOwners and
// checkGrants.
type sequence struct {
	Name      string
	Type      string
	Start     int64
	Min       int64
	Max       int64
	Increment int64
	Cache     int64
	Cycle     bool
	Logged    bool
}

func counting(name string) sequence {
	return sequence{Name: name, Type: "bigint", Start: 1, Min: 1, Max: math.MaxInt64, Increment: 1, Cache: 1, Logged: true}
}

var shardSequence = regexp.MustCompile(`^(base|counter)_(0|[1-9][0-9]{0,3})$`)

// intended is how a sequence of the schema pgid was made. ok is false for one that is
// not pgid's.
func intended(name string) (s sequence, ok bool) {
	s = counting(name)
	switch name {
	case "lease_fence", "count_waits", "count_refusals", "count_busy", "count_steps", "base_none":
		return s, true
	case "counter_none":
		s.Cycle = true
		return s, true
	case "clock_high":
		s.Start, s.Min = math.MinInt64, math.MinInt64
		return s, true
	}
	parts := shardSequence.FindStringSubmatch(name)
	if parts == nil {
		return s, false
	}
	if parts[1] == "base" {
		s.Start, s.Min = -1, -1
	}
	return s, true
}

var ownSequences = []string{"lease_fence", "count_waits", "count_refusals", "count_busy", "count_steps", "base_none", "counter_none", "clock_high"}

// alter is the statement that gives a sequence its options back.
func (s sequence) alter() string {
	logged, cycle := "", "NO CYCLE"
	if s.Cycle {
		cycle = "CYCLE"
	}
	if s.Logged {
		logged = fmt.Sprintf(" ALTER SEQUENCE pgid.%s SET LOGGED;", s.Name)
	}
	return fmt.Sprintf("ALTER SEQUENCE pgid.%s AS bigint INCREMENT BY 1 MINVALUE %d MAXVALUE %d START WITH %d CACHE 1 %s;%s",
		s.Name, s.Min, s.Max, s.Start, cycle, logged)
}

// checkSequences looks at how the sequences are made: all that keeps IDs from repeating
// rests on that.
func (e *exam) checkSequences(ctx context.Context) error {
	found, err := collect[sequence](ctx, e, `
		SELECT c.relname::text, format_type(s.seqtypid, NULL), s.seqstart, s.seqmin, s.seqmax, s.seqincrement, s.seqcache, s.seqcycle,
		       c.relpersistence <> 'u'
		  FROM pg_sequence AS s
		  JOIN pg_class AS c ON c.oid = s.seqrelid
		 WHERE c.relnamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = 'pgid')
		 ORDER BY c.relname`)
	if err != nil {
		return err
	}
	before := len(e.findings)
	standing := make(map[string]bool)
	for _, s := range found {
		standing[s.Name] = true
		want, ok := intended(s.Name)
		switch {
		case !ok:
			e.add(Warning, fmt.Sprintf("DROP SEQUENCE pgid.%s;", ident(s.Name)), "the sequence %s is not pgid's", s.Name)
		case s != want:
			e.addAltered(s, want)
		}
	}
	for _, name := range ownSequences {
		if !standing[name] {
			want, _ := intended(name)
			cycle := ""
			if want.Cycle {
				cycle = " CYCLE"
			}
			e.add(Error, fmt.Sprintf("CREATE SEQUENCE pgid.%s MINVALUE %d START WITH %d%s;", name, want.Min, want.Start, cycle),
				"the sequence %s is missing", name)
		}
	}
	if len(e.findings) == before {
		e.ok("%d sequences are as they were made", len(found))
	}
	return nil
}

func (e *exam) addAltered(s, want sequence) {
	what := ""
	differs := func(is bool, format string, args ...any) {
		if is {
			if what != "" {
				what += ", "
			}
			what += fmt.Sprintf(format, args...)
		}
	}
	differs(s.Type != want.Type, "is of type %s", s.Type)
	differs(s.Cache != want.Cache, "has CACHE %d: sessions keep numbers in hand, and IDs can repeat", s.Cache)
	differs(s.Increment != want.Increment, "goes by steps of %d", s.Increment)
	differs(s.Cycle != want.Cycle, "has cycle %t", s.Cycle)
	differs(s.Min != want.Min || s.Max != want.Max, "ranges from %d to %d", s.Min, s.Max)
	differs(s.Logged != want.Logged, "is unlogged: a crash resets it")
	severity := Error
	if what == "" { // where it starts matters to a RESTART only
		what, severity = fmt.Sprintf("starts with %d", s.Start), Warning
	}
	fix := want.alter()
	if s.Logged {
		want.Logged = false
		fix = want.alter()
	}
	e.add(severity, fix, "somebody has altered the sequence %s: it %s", s.Name, what)
}
