package interleave

import (
	"strings"
	"testing"
)

var (
	single = []Call{{}}
	twice  = []Call{{}, {}}
	batch  = []Call{{Batch: 3}}
	raise  = []Call{{Raise: 6}}
	retire = []Call{{Retire: true}}
	clock  = []int8{0, 1, 2}
)

// TestSearch finds no broken promise, and has looked everywhere. The number of
// states is compared with a lower bound, so that a model which loses its
// interleavings does not pass.
func TestSearch(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		scenario Scenario
		atLeast  int // states: a little less than there are
	}{
		{"three single calls", Scenario{Programs: [][]Call{single, single, single}}, 300_000},
		{"two single calls and a batch", Scenario{Programs: [][]Call{single, single, batch}}, 2_000_000},
		{"two batches and a single call", Scenario{Programs: [][]Call{batch, batch, single}}, 160_000},
		{"two single calls and a raise", Scenario{Programs: [][]Call{single, single, raise}}, 80_000},
		{"two single calls and a retirement", Scenario{Programs: [][]Call{single, twice, retire}}, 2_300_000},
		{"a single call, a batch and a retirement", Scenario{Programs: [][]Call{single, batch, retire}}, 75_000},
		{"a retirement that is interrupted, and another", Scenario{Programs: [][]Call{single, single, {{Retire: true}, {Retire: true}}}, Deaths: true}, 280_000},
		{"the server crashes on a retirement", Scenario{Programs: [][]Call{twice, {{Retire: true}, {Retire: true}}}, Crashes: 1, Jump: 1}, 41_000},
		{"two callers of two calls", Scenario{Programs: [][]Call{twice, twice}}, 250_000},
		{"callers die", Scenario{Programs: [][]Call{twice, twice}, Deaths: true}, 490_000},
		{"a batch among callers that die", Scenario{Programs: [][]Call{twice, {{Batch: 3}, {}}}, Deaths: true, Clock: []int8{0, 2}}, 1_300_000},
		{"the server crashes on a batch", Scenario{Programs: [][]Call{twice, {{Batch: 3}}}, Crashes: 1, Jump: 1}, 550_000},
		{"the server crashes", Scenario{Programs: [][]Call{twice, twice}, Crashes: 1, Jump: 2}, 690_000},
	}
	var taken [atEnd]int
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.scenario.Clock == nil {
				test.scenario.Clock = clock
			}
			result := Search(test.scenario)
			t.Logf("%d states", result.States)
			if result.Broken != "" {
				t.Errorf("%s after %d actions:\n%s", result.Broken, len(result.Trace), strings.Join(result.Trace, "\n"))
			}
			if result.States < test.atLeast {
				t.Errorf("%d states, want at least %d: the search does not cover what it should", result.States, test.atLeast)
			}
			for action, times := range result.Taken {
				taken[action] += times
			}
		})
	}
	for action, times := range taken {
		if times == 0 {
			t.Errorf("no scenario comes to the action %s", atNames[action])
		}
	}
}

// TestFaults shows that the search can fail: it finds each known way to get the
// algorithm wrong.
func TestFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		fault    Fault
		programs [][]Call
		clock    []int8
	}{
		{"no second read of base", NoSecondRead, [][]Call{single, single, single}, clock},
		{"no second read of base, two callers", NoSecondRead, [][]Call{twice, twice}, clock},
		{"catch up without the lock", NoLock, [][]Call{single, single, single}, clock},
		{"batch without the lock", NoLock, [][]Call{single, single, batch}, clock},
		{"raise without the lock", NoLock, [][]Call{single, single, raise}, clock},
		{"two batches without the lock", NoLock, [][]Call{batch, batch}, clock},
		{"batch without a look at the counter", NoBatchCheck, [][]Call{single, single, batch}, clock},
		{"batch with room for one draw less than it takes", LaxBatchCheck, [][]Call{single, single, batch}, clock},
		{"batch from one tick below", LowFirst, [][]Call{single, batch}, []int8{1}},
		{"base raised by one tick less than the batch", ShortSet, [][]Call{single, batch}, clock},
		{"retirement in one step", NoStop, [][]Call{single, retire}, clock},
		{"retirement without the lock", NoLock, [][]Call{single, single, retire}, clock},
		{"catch up from the base before the lock", StaleBase, [][]Call{single, single, single}, clock},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			result := Search(Scenario{Programs: test.programs, Clock: test.clock, Fault: test.fault})
			if result.Broken == "" {
				t.Fatalf("%d states and no broken promise: the search does not see this fault", result.States)
			}
			t.Logf("%s after %d actions, %d states:\n%s",
				result.Broken, len(result.Trace), result.States, strings.Join(result.Trace, "\n"))
		})
	}
}
