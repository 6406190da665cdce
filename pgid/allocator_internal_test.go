package pgid

import (
	"testing"
	"time"
)

// TestLateCallers: a call that held on to a window while others went on finds things
// as they are now. No public call can be made to stall there.
func TestLateCallers(t *testing.T) {
	t.Parallel()
	a, err := NewAllocator(NewClient(nil), 5, AllocatorConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	usedUp := a.current.Load()
	present := &window{n: 10, first: 100, started: time.Now()}
	ahead := &window{n: 10, first: 110, started: time.Now()}
	a.current.Store(present)
	a.next = ahead

	// It found its window used up; that one was replaced meanwhile.
	if f, err := a.replace(usedUp, true); f != nil || err != nil {
		t.Errorf("replace = %v, %v, want to look again", f, err)
	}
	// It is the one to ask for the next range; others have done so.
	a.prefetch(usedUp)
	a.prefetch(present)
	if a.current.Load() != present || a.next != ahead || a.fetch != nil || a.stats != (AllocatorStats{}) {
		t.Errorf("the windows have changed: %+v", a.Stats())
	}
}
