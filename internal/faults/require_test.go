package faults

import (
	"os"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/internal/display"
)

// soakEnv makes the tests of this package long: each runs for about as long as it says.
const soakEnv = "PGID_TEST_SOAK"

// soak is the duration of the long form, 0 for the short one.
func soak(t testing.TB) time.Duration {
	t.Helper()
	text := os.Getenv(soakEnv)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("%s=%q is not a duration, such as 10m", soakEnv, text)
	}
	return d
}

// await gives something half a minute to come true, for on a machine that is busy with other
// things it may take that. It does not fail the test: who needs it to be true says so.
func await(isSo func() bool) bool {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if isSo() {
			return true
		}
	}
	return isSo()
}

// requireKept fails the test unless the ledger holds at least so many IDs, each once and in
// order.
func requireKept(t testing.TB, l *Ledger, atLeast int) {
	t.Helper()
	if report := requireCommitted(t, l, atLeast); report.Again > 0 {
		t.Errorf("%d IDs that were not committed came again", report.Again)
	}
}

// requireCommitted is requireKept where a crash and a clock set back have come together:
// Loose IDs may come again.
func requireCommitted(t testing.TB, l *Ledger, atLeast int) Report {
	t.Helper()
	report := l.Check()
	if broken := report.Broken(); broken != "" {
		t.Error(broken)
	}
	if report.IDs < atLeast {
		t.Errorf("%d IDs, want at least %d", report.IDs, atLeast)
	}
	t.Logf("%s IDs in %s runs: %d twice, %d out of order, %d loose ones again",
		display.Count(report.IDs), display.Count(report.Runs), report.Twice, report.Disorder+report.LateOrder, report.Again)
	return report
}

// requireServed fails the test if, while the clients drew, nobody got an ID for longer
// than the bound.
func requireServed(t testing.TB, l *Ledger, bound time.Duration) {
	t.Helper()
	from, to := l.Span()
	if gap := l.Gap(from, to); gap > bound {
		t.Errorf("for %s nobody got an ID, want %s at most", gap, bound)
	} else {
		t.Logf("nobody got an ID for %s at most", gap.Round(time.Millisecond))
	}
}
