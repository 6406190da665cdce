package pgid

// AllocatorStats count what an [Allocator] has done since it was made. What was
// reserved was handed out, dropped, or is still cached.
type AllocatorStats struct {
	HandedOut     int64 `json:"handed_out"`     // IDs that Next returned, or is about to
	Dropped       int64 `json:"dropped"`        // IDs that were reserved and will not be handed out
	Fetches       int64 `json:"fetches"`        // reservations asked of the database
	FailedFetches int64 `json:"failed_fetches"` // those of them that brought an error or a range that was refused, but for Close's
	Waits         int64 `json:"waits"`          // calls of Next that had to wait for a fetch
}

// Stats returns the counts up to now. It costs a lock, and calls of Next that run
// meanwhile may be counted already.
func (a *Allocator) Stats() AllocatorStats {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.stats
	tooOld := a.tooOld.Load() // first: each was claimed before it was counted
	w := a.current.Load()
	if claimed := w.cursor.Load(); claimed < closedCursor {
		s.HandedOut += min(claimed, w.n)
	}
	s.HandedOut -= tooOld
	s.Dropped += tooOld
	return s
}
