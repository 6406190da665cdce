package doctor

import (
	"fmt"
	"slices"
)

// Severity says how bad a [Finding] is.
type Severity string

// The severities, from the best to the worst.
const (
	OK      Severity = "ok"      // a check found nothing wrong
	Info    Severity = "info"    // worth knowing, or why something was not examined
	Warning Severity = "warning" // IDs are issued, but something wants attention
	Error   Severity = "error"   // IDs are not issued, or a promise does not hold
)

var order = []Severity{OK, Info, Warning, Error}

// A Finding is one line of what was found in one database.
type Finding struct {
	Severity Severity `json:"severity"`
	Database string   `json:"database"` // host:port/name
	Check    string   `json:"check"`    // a short name that does not change between versions
	What     string   `json:"what"`
	Fix      string   `json:"fix,omitempty"` // SQL, a command, or what to do; SQL ends in a semicolon or a comment
}

// Worst is the worst severity among findings, OK if there are none.
func Worst(findings []Finding) Severity {
	worst := 0
	for _, f := range findings {
		worst = max(worst, slices.Index(order, f.Severity))
	}
	return order[worst]
}

// maxAlike is how many findings of one check and severity a report lists one by one.
const maxAlike = 30

// add notes a finding of the check under way.
func (e *exam) add(severity Severity, fix, format string, args ...any) {
	e.findings = append(e.findings, Finding{severity, e.name, e.check, fmt.Sprintf(format, args...), fix})
}

func (e *exam) ok(format string, args ...any) { e.add(OK, "", format, args...) }

// shorten leaves out what the many findings of one kind would repeat.
func shorten(findings []Finding) []Finding {
	type kind struct {
		severity Severity
		check    string
	}
	count := make(map[kind]int)
	var short []Finding
	for _, f := range findings {
		k := kind{f.Severity, f.Check}
		if count[k]++; count[k] <= maxAlike {
			short = append(short, f)
		}
	}
	for i := len(short) - 1; i >= 0; i-- {
		k := kind{short[i].Severity, short[i].Check}
		if more := count[k] - maxAlike; more > 0 {
			short = slices.Insert(short, i+1, Finding{k.severity, short[i].Database, k.check,
				fmt.Sprintf("and %d more of this kind", more), "mend those above first, then look again"})
			delete(count, k)
		}
	}
	return short
}
