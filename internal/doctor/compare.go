package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

// compare looks at the databases side by side: what each holds may be right, and not so
// beside another.
func compare(exams []*exam) {
	for i, b := range exams {
		for _, a := range exams[:i] {
			if a.schema.version == 0 || b.schema.version == 0 {
				continue // not reached, or without pgid
			}
			b.compareWith(a)
		}
	}
}

func (e *exam) compareWith(other *exam) {
	e.check = "others"
	before := len(e.findings)
	if e.server.DatabaseID == other.server.DatabaseID && e.server.Started.Equal(other.server.Started) {
		e.add(Info, "", "this is the same database as %s", other.name)
		return
	}
	if !e.examined || !other.examined {
		e.add(Warning, "mend what kept the two from being examined whole", "not compared with %s", other.name)
		return
	}
	if e.server.Standby || other.server.Standby {
		e.add(Info, "", "not compared with %s: a standby has the shards of its primary", other.name)
		return
	}
	e.compareSettings(other)
	e.compareShards(other)
	if off := e.clock.offset - other.clock.offset; off.Abs()-e.clock.unknown-other.clock.unknown > maxOffset {
		e.add(Warning, "have both servers follow a time server", "the server's clock is %s %s that of %s", rounded(off.Abs()), aheadOrBehind(off), other.name)
	}
	if len(e.findings) == before {
		e.ok("it agrees with %s, and shares no shard with it", other.name)
	}
}

func (e *exam) compareSettings(other *exam) {
	a, b := other.schema, e.schema
	if !a.epoch.Equal(b.epoch) {
		e.add(Error, fmt.Sprintf("SELECT pgid.configure(epoch_ms => %d); -- possible only before the first shard is created", a.epoch.UnixMilli()),
			"the epoch is %s, and that of %s is %s: IDs of the two are not in the order of time, and can be equal",
			b.epoch.Format("2006-01-02T15:04:05.000Z07:00"), other.name, a.epoch.Format("2006-01-02T15:04:05.000Z07:00"))
	}
	if a.maxLead != b.maxLead || a.maxWait != b.maxWait {
		e.add(Warning, fmt.Sprintf("SELECT pgid.configure(max_lead_ms => %d, max_wait_ms => %d);", a.maxLead.Milliseconds(), a.maxWait.Milliseconds()),
			"max_lead is %s and max_wait %s, and %s has %s and %s", b.maxLead, b.maxWait, other.name, a.maxLead, a.maxWait)
	}
}

// compareShards finds the shards that both issue IDs of: the same IDs, sooner or later. It
// is a warning while only one of the two has, and the other might.
func (e *exam) compareShards(other *exam) {
	for _, severity := range []Severity{Error, Warning} {
		var mine, theirs []int // by where they are to be given up: where the IDs are older
		for _, s := range e.shards {
			o := other.shard(s.Number)
			if o == nil || !s.open() || !o.open() {
				continue
			}
			switch drawn, theirsDrawn := s.floor() >= 0, o.floor() >= 0; {
			case !drawn && !theirsDrawn, (drawn && theirsDrawn) != (severity == Error):
			case s.floor() <= o.floor():
				mine = append(mine, s.Number)
			default:
				theirs = append(theirs, s.Number)
			}
		}
		e.addShared(severity, mine, other.name)
		if other.check = "others"; len(theirs) > 0 {
			other.addShared(severity, theirs, e.name)
			e.add(Info, "", "%s has some of the same shards as this one: see there", other.name)
		}
	}
}

// addShared notes shards of which this database has the older IDs, or none.
func (e *exam) addShared(severity Severity, numbers []int, other string) {
	const then = " -- and in the other pgid.advance_shard past the ID that it returns; or the other way round"
	if len(numbers) == 0 {
		return
	}
	shards, issue := fmt.Sprintf("shard %d", numbers[0]), "issues"
	fix := fmt.Sprintf("SELECT pgid.retire_shard(%d);", numbers[0])
	if len(numbers) > 1 {
		shards, issue = "shards "+ranges(numbers), "issue"
		fix = fmt.Sprintf("SELECT n, pgid.retire_shard(n) FROM unnest('{%s}'::integer[]) AS n;", join(numbers))
	}
	if severity == Error {
		e.add(Error, fix+then, "%s %s IDs here and in %s: the two issue the same", shards, issue, other)
	} else {
		e.add(Warning, fix+" -- if nobody is to draw from it here", "%s %s IDs in %s, and may here: if both do, they issue the same", shards, issue, other)
	}
}

func join(numbers []int) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ",")
}

// ranges writes ascending numbers as the command line takes them: 0-3,7.
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := strconv.Itoa(numbers[i])
		if j > i {
			part += "-" + strconv.Itoa(numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}
