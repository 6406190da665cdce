package interleave

// emit receives a state that an action leads to, and the promise it breaks, if any.
type emit func(next state, broken string)

// act lets caller i take its next action in s, and emits every state that may
// follow: none if the caller waits for the lock, several if it reads the clock.
func act(s state, i int, call Call, fault Fault, clock []int8, out emit) {
	c := &s.callers[i] // of our copy of s
	switch c.at {
	case begin:
		beginCall(s, i, call, fault, out)

	case fastDraw, slowDraw:
		c.tick = c.base + s.nextval()
		if c.at == fastDraw {
			c.at = fastClock
		} else {
			c.at = slowCheck
		}
		out(s, "")

	case fastClock:
		for _, now := range clock {
			c.at = slowCheck
			if ahead := lead(c.tick, now); ahead >= 0 && ahead <= maxLead {
				c.at = fastCheck
			}
			out(s, "")
		}

	case fastCheck:
		if c.base == s.base || fault == NoSecondRead {
			broken := s.issue(i, c.tick, 1)
			out(s, broken)
			return
		}
		c.at = slowCheck
		out(s, "")

	case slowCheck:
		if c.base == s.base || fault == NoSecondRead {
			c.at = slowClock
		} else {
			c.base, c.tick = 0, 0
			c.at = slowRead
		}
		out(s, "")

	case slowClock:
		for _, now := range clock {
			next := s
			c := &next.callers[i]
			c.base = 0
			c.at = decide
			if lead(c.tick, now) < 0 {
				c.tick = 0
				c.at = tryLock
				if fault == StaleBase {
					c.base = s.callers[i].base
				}
			}
			out(next, "")
		}

	case slowRead:
		c.base = s.base
		c.at = slowDraw
		out(s, "")

	case decide:
		for _, now := range clock {
			next := s
			if lead(c.tick, now) > maxLead+maxWait {
				next.leave(i) // ID001: the tick is burnt
				out(next, "")
				continue
			}
			broken := next.issue(i, c.tick, 1)
			out(next, broken)
		}

	case tryLock, lockedRead, lockedDraw, lockedClock, catchUp, catchUpDraw, unlock:
		actLocked(s, i, fault, clock, out)

	case batchBase, batchDrawn, batchClock, batchSet, batchCheck:
		actBatch(s, i, call.Batch, fault, clock, out)

	case raiseRead, raiseLast, raiseSet:
		actRaise(s, i, call.Raise, out)

	case retireRead, retireStop, retireLast, retireSet:
		actRetire(s, i, fault, out)
	}
}

// beginCall is the first action of a call: next_id reads base, the others take the
// lock, for which they wait.
func beginCall(s state, i int, call Call, fault Fault, out emit) {
	c := &s.callers[i]
	c.floor = s.top
	switch {
	case call == Call{}:
		c.base = s.base
		c.at = fastDraw
	case s.locked:
		return
	default:
		c.at = raiseRead
		switch {
		case call.Batch > 0:
			c.at = batchBase
		case call.Retire:
			c.at = retireRead
		}
		s.lock(i, fault)
	}
	out(s, "")
}

// lock gives the free lock to the caller.
func (s *state) lock(i int, fault Fault) {
	if fault != NoLock {
		s.locked = true
		s.callers[i].holds = true
	}
}

// actLocked is the catch-up of next_id_slow.
func actLocked(s state, i int, fault Fault, clock []int8, out emit) {
	c := &s.callers[i]
	switch c.at {
	case tryLock:
		if s.locked {
			c.base = 0
			c.at = slowRead
			out(s, "")
			return
		}
		s.lock(i, fault)
		c.at = lockedRead
		if fault == StaleBase {
			c.at = lockedDraw
		}

	case lockedRead:
		c.base = s.base
		c.at = lockedDraw

	case lockedDraw:
		c.tick = c.base + s.nextval()
		c.at = lockedClock

	case lockedClock:
		for _, now := range clock {
			next := s
			c := &next.callers[i]
			c.at = unlock
			if lead(c.tick, now) < 0 {
				c.lag = now<<seqBits - c.tick
				c.tick = 0
				c.at = catchUp
			}
			out(next, "")
		}
		return

	case catchUp:
		c.base += c.lag - 1
		s.base = c.base
		c.lag = 0
		c.at = catchUpDraw

	case catchUpDraw:
		c.tick = c.base + s.nextval()
		c.at = unlock

	case unlock:
		s.locked = s.locked && !c.holds
		c.holds = false
		c.base = 0
		c.at = decide
	}
	out(s, "")
}

// actBatch is reserve_ticks, under the lock that it began with. It draws nothing from
// the counter. How much room it leaves for others, pad, is a matter of speed: here it
// is any of a few numbers, chosen anew in each round.
func actBatch(s state, i int, k int8, fault Fault, clock []int8, out emit) {
	c := &s.callers[i]
	switch c.at {
	case batchBase:
		c.base = s.base
		c.at = batchDrawn

	case batchDrawn:
		c.tick = c.base + s.counter + 1
		c.at = batchClock

	case batchClock:
		for _, now := range clock {
			for _, pad := range pads {
				next := s
				c := &next.callers[i]
				c.lag = max(0, now<<seqBits-c.tick) + pad
				c.tick += c.lag
				c.at = batchSet
				if lead(c.tick+k-1, now) > maxLead+maxWait {
					next.leave(i) // ID001: nothing was drawn
				}
				out(next, "")
			}
		}
		return

	case batchSet:
		s.base = c.base + c.lag + k
		if fault == ShortSet {
			s.base--
		}
		c.at = batchCheck

	case batchCheck:
		drawn := c.tick - c.lag - 1 - c.base
		room := c.lag
		if fault == LaxBatchCheck {
			room++
		}
		if s.counter-drawn <= room || fault == NoBatchCheck {
			first := c.tick
			if fault == LowFirst {
				first--
			}
			broken := s.issue(i, first, k)
			out(s, broken)
			return
		}
		c.base, c.tick, c.lag = 0, 0, 0
		c.at = batchBase
	}
	out(s, "")
}

// actRaise is raise_shard, under the lock that it began with.
func actRaise(s state, i int, tick int8, out emit) {
	c := &s.callers[i]
	switch c.at {
	case raiseRead:
		c.base = s.base
		c.at = raiseLast
		out(s, "")

	case raiseLast:
		c.lag = tick - (c.base + s.counter)
		c.at = raiseSet
		if c.lag <= 0 {
			s.raised(i, tick)
		}
		out(s, "")

	case raiseSet:
		s.base = c.base + c.lag
		s.raised(i, tick)
		out(s, "")
	}
}

// raised ends a raise: every tick of a call that begins from now on exceeds it.
func (s *state) raised(i int, tick int8) {
	s.top = max(s.top, tick)
	s.leave(i)
}

// actRetire is retire_shard, under the lock that it began with.
func actRetire(s state, i int, fault Fault, out emit) {
	c := &s.callers[i]
	stopped := c.base >= retiringBase
	switch c.at {
	case retireRead:
		c.base = s.base
		stopped = c.base >= retiringBase
		switch {
		case c.base >= retiredBase:
			broken := s.retired(i, c.base)
			out(s, broken)
			return
		case stopped, fault == NoStop:
			c.at = retireLast
		default:
			c.at = retireStop
		}

	case retireStop:
		c.base += retiringBase + 1
		s.base = c.base
		c.at = retireLast

	case retireLast:
		c.tick = c.base + s.counter
		if stopped {
			c.tick -= retiringBase + 1
		}
		c.base = 0
		c.at = retireSet

	case retireSet:
		s.base = retiredBase + 1 + c.tick
		broken := s.retired(i, s.base)
		out(s, broken)
		return
	}
	out(s, "")
}

// retired ends a retirement, which returns the last tick that base holds, and says
// which promise that breaks, if any.
func (s *state) retired(i int, base int8) (broken string) {
	last := base - retiredBase - 1
	if s.end != neverRetired && s.end != last {
		broken = "two retirements returned two last ticks"
	}
	s.end = last
	if s.issued>>(last+1) != 0 {
		broken = "a tick was issued past the last of a retired shard"
	}
	s.leave(i)
	return broken
}
