package faults

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nextid/postgres-ids/pgid"
)

// A Report is what a ledger's entries show. All its counts but IDs, Calls and Again are
// of broken promises.
type Report struct {
	IDs, Runs int
	// Twice counts IDs that came although they had been returned before. Again counts
	// those of them whose first coming was Loose: the one repetition that is allowed,
	// after a crash, by a clock that reads earlier. It is not part of Twice.
	Twice, Again int
	// Disorder counts IDs that a client got after a larger one of the shard.
	Disorder int
	// LateOrder counts calls that started after another one's larger ID was returned.
	LateOrder int
	// Examples of what is broken, a line each.
	Examples []string
}

// Check looks through all entries. The clients have ended.
func (l *Ledger) Check() Report {
	var report Report
	shards := map[pgid.Shard][]Run{}
	for _, b := range l.all() {
		last := map[pgid.Shard]pgid.ID{}
		for _, r := range b.Runs() {
			report.IDs += r.Len()
			report.Runs++
			shards[r.shard()] = append(shards[r.shard()], r)
			if before, ok := last[r.shard()]; ok && r.First <= before {
				report.Disorder++
				report.example("%s got %d after %d", b.Name, r.First, before)
			}
			if r.Kind != Loose {
				last[r.shard()] = r.Last
			}
		}
	}
	for _, runs := range shards {
		report.countTwice(runs)
		report.countLate(runs)
	}
	return report
}

// Broken says which promises were broken, "" for none.
func (r Report) Broken() string {
	if r.Twice+r.Disorder+r.LateOrder == 0 {
		return ""
	}
	text := fmt.Sprintf("of %d IDs, %d were issued twice; %d times a client got a smaller ID than before; %d calls got a smaller ID than one returned before their start",
		r.IDs, r.Twice, r.Disorder, r.LateOrder)
	for _, e := range r.Examples {
		text += "\n\t" + e
	}
	return text
}

func (r *Report) example(format string, args ...any) {
	if len(r.Examples) < 10 {
		r.Examples = append(r.Examples, fmt.Sprintf(format, args...))
	}
}

// countTwice compares each run with those before it, in the order of ticks, that reach
// up to it. There is none, unless something is broken.
func (r *Report) countTwice(runs []Run) {
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Compare(a.First, b.First) })
	var open []Run
	counted := pgid.Tick(-1 << 63) // up to here, by Twice or Again
	for _, b := range runs {
		open = slices.DeleteFunc(open, func(a Run) bool { return a.Last < b.First })
		for _, a := range open {
			first, last := max(b.First.Tick(), counted+1), min(a.Last, b.Last).Tick()
			if last < first {
				continue
			}
			counted = last
			n := int(last - first + 1)
			earlier, later := a, b
			if b.End < a.End {
				earlier, later = b, a
			}
			if earlier.Kind == Loose {
				r.Again += n
				continue
			}
			r.Twice += n
			r.example("shard %d: %d to %d, and %s later %d to %d", b.shard(), earlier.First, earlier.Last,
				time.Duration(later.End-earlier.End), later.First, later.Last)
		}
		open = append(open, b)
	}
}

// countLate finds Strict calls that started after a Strict call had returned a larger ID.
func (r *Report) countLate(runs []Run) {
	var starts []Run
	for _, run := range runs {
		if run.Kind == Strict {
			starts = append(starts, run)
		}
	}
	ends := slices.Clone(starts)
	slices.SortFunc(starts, func(a, b Run) int { return cmp.Compare(a.Start, b.Start) })
	slices.SortFunc(ends, func(a, b Run) int { return cmp.Compare(a.End, b.End) })
	returned := pgid.ID(-1 << 63) // the largest before the call at hand started
	next := 0
	for _, c := range starts {
		for ; ends[next].End < c.Start; next++ {
			returned = max(returned, ends[next].Last)
		}
		if c.First <= returned {
			r.LateOrder++
			r.example("shard %d: %d was issued by a call that started after %d had been returned", c.shard(), c.First, returned)
		}
	}
}

// Gap is the longest time within [from, to], by Ledger.Now, in which the database gave no
// client an ID of the given shards, or of any if none is given: how long it was away.
func (l *Ledger) Gap(from, to int64, shards ...pgid.Shard) time.Duration {
	return l.Timeline(shards...).Gap(from, to)
}

// A Timeline is when the database returned IDs, ascending.
type Timeline []int64

// Timeline is when the database returned IDs of the given shards, or of any if none is
// given. Cached ones do not count: they come also while it is away.
func (l *Ledger) Timeline(shards ...pgid.Shard) Timeline {
	var ends Timeline
	for _, b := range l.all() {
		for _, r := range b.Runs() {
			if r.Kind != Cached && (len(shards) == 0 || slices.Contains(shards, r.shard())) {
				ends = append(ends, r.End)
			}
		}
	}
	slices.Sort(ends)
	return slices.Compact(ends)
}

// Gap is the longest time within [from, to] in which nothing was returned; also before
// the first and after the last.
func (line Timeline) Gap(from, to int64) time.Duration {
	at, _ := slices.BinarySearch(line, from)
	gap, last := int64(0), from
	for ; at < len(line) && line[at] < to; at++ {
		gap = max(gap, line[at]-last)
		last = line[at]
	}
	return time.Duration(max(gap, to-last))
}

// Span is when the first and the last ID were returned, by Ledger.Now.
func (l *Ledger) Span() (first, last int64) {
	for _, b := range l.all() {
		for _, r := range b.Runs() {
			if first == 0 || r.End < first {
				first = r.End
			}
			last = max(last, r.End)
		}
	}
	return first, last
}

// Last is the largest ID of a shard that anybody got, less than all IDs if nobody got one.
func (l *Ledger) Last(shard pgid.Shard) pgid.ID {
	last := pgid.ID(-1 << 63)
	for _, b := range l.all() {
		for _, r := range b.Runs() {
			if r.shard() == shard {
				last = max(last, r.Last)
			}
		}
	}
	return last
}

// drawn is how many IDs of a shard were returned by calls that began after a time.
func (l *Ledger) drawn(shard pgid.Shard, after int64) (n int) {
	for _, b := range l.all() {
		for _, r := range b.Runs() {
			if r.shard() == shard && r.Start > after {
				n += r.Len()
			}
		}
	}
	return n
}

// total is how many IDs were returned so far.
func (l *Ledger) total() (n int) {
	for _, b := range l.all() {
		for _, r := range b.Runs() {
			n += r.Len()
		}
	}
	return n
}

// Sources counts the IDs of each source: of the books whose names agree up to « #».
func (l *Ledger) Sources() map[string]int {
	counts := map[string]int{}
	for _, b := range l.all() {
		source, _, _ := strings.Cut(b.Name, " #")
		for _, r := range b.Runs() {
			counts[source] += r.Len()
		}
	}
	return counts
}
