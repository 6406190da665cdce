package interleave

import "slices"

// A Scenario is what a search covers.
type Scenario struct {
	Programs [][]Call // the calls of each caller, in order; at most 3 callers
	Clock    []int8   // what a reading of the clock may give, in milliseconds
	Deaths   bool     // a caller may die at any point; it then goes on with its next call
	Crashes  int8     // how often the server may crash
	Jump     int8     // how many draws the counter may jump ahead in a crash
	Fault    Fault
}

// A Result is what a search found.
type Result struct {
	States int        // states visited
	Taken  [atEnd]int // how often each action was tried
	Broken string     // the promise that broke, or ""
	Trace  []string   // the shortest way there
}

// node is a visited state and how the search came to it.
type node struct {
	state  state
	parent int32
	actor  int8 // caller, or crashed, or died + caller
	action at
}

const (
	crashed int8 = -1
	died    int8 = callers
)

// search is a breadth-first walk: the first violation it meets is a shortest one.
type search struct {
	scenario Scenario
	seen     map[state]struct{}
	nodes    []node // visited, in order; those not yet expanded at the end
	taken    [atEnd]int
	broken   string
}

// Search visits every state that the scenario can reach, until one breaks a promise.
func Search(scenario Scenario) Result {
	w := &search{scenario: scenario, seen: make(map[state]struct{})}
	w.visit(node{state: initial(scenario.Crashes), parent: -1}, "")
	for i := 0; i < len(w.nodes) && w.broken == ""; i++ {
		w.expand(int32(i))
	}
	result := Result{States: len(w.nodes), Taken: w.taken, Broken: w.broken}
	if w.broken != "" {
		result.Trace = w.trace()
	}
	return result
}

// visit notes a state, unless it was there before.
func (w *search) visit(n node, broken string) {
	if w.broken != "" {
		return
	}
	key := w.sorted(n.state)
	if _, ok := w.seen[key]; ok && broken == "" {
		return
	}
	w.seen[key] = struct{}{}
	w.nodes = append(w.nodes, n)
	w.broken = broken
}

// sorted is s with its callers in the order of their ranks, as far as they run the
// same program: from states that differ only there, the same can follow.
func (w *search) sorted(s state) state {
	programs := w.scenario.Programs
	for range programs {
		for i := 1; i < len(programs); i++ {
			if slices.Equal(programs[i-1], programs[i]) && s.callers[i-1].rank() > s.callers[i].rank() {
				s.callers[i-1], s.callers[i] = s.callers[i], s.callers[i-1]
			}
		}
	}
	return s
}

// expand visits every state that one action can make of a visited one.
func (w *search) expand(parent int32) {
	s := w.nodes[parent].state
	running, stuck := false, true
	for i, program := range w.scenario.Programs {
		c := s.callers[i]
		if int(c.call) >= len(program) {
			continue
		}
		running = true
		act(s, i, program[c.call], w.scenario.Fault, w.scenario.Clock, func(next state, broken string) {
			stuck = false
			w.taken[c.at]++
			w.visit(node{state: next, parent: parent, actor: int8(i), action: c.at}, broken)
		})
		if w.scenario.Deaths && c.at != begin {
			next := s
			next.leave(i)
			w.visit(node{state: next, parent: parent, actor: died + int8(i), action: c.at}, "")
		}
	}
	if running && stuck {
		w.visit(w.nodes[parent], "nobody can act")
	}
	if s.crashes > 0 {
		w.crash(s, parent)
	}
}

// crash ends every call under way, and keeps what the sequences hold.
func (w *search) crash(s state, parent int32) {
	s.crashes--
	for i := range s.callers {
		if s.callers[i].at != begin {
			s.leave(i)
		}
	}
	for jump := int8(0); jump <= w.scenario.Jump; jump++ {
		next := s
		next.counter += jump
		w.visit(node{state: next, parent: parent, actor: crashed}, "")
	}
}

// trace is the way from the first state to the last one visited.
func (w *search) trace() []string {
	var names []string
	for i := int32(len(w.nodes) - 1); w.nodes[i].parent >= 0; i = w.nodes[i].parent {
		names = append(names, w.nodes[i].String())
	}
	slices.Reverse(names)
	return names
}

func (n node) String() string {
	switch {
	case n.actor == crashed:
		return "the server crashes"
	case n.actor >= died:
		return string('A'+rune(n.actor-died)) + " dies before " + atNames[n.action]
	}
	return string('A'+rune(n.actor)) + " " + atNames[n.action]
}
