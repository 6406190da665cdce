// Package interleave searches every interleaving of a few callers of one shard for
// a tick that is issued twice or out of order. It holds a model of sql/next_id.sql,
// sql/next_ids.sql, sql/shard.sql and sql/shard_life.sql, and an exhaustive search over
// the model's states.
//
// # The model
//
// A shard is two numbers, base and counter, and a lock. A caller is a program
// counter and a few registers. One action touches the shared state once, as one
// sequence function of PostgreSQL does, and any caller may act next, so that a
// caller can stall between any two actions for as long as the others run. A reading
// of the clock may give any of the model's readings, whatever was read before: the
// clock steps back and forth at will. Sleeping is a stall and needs no action.
//
// A caller may die at any point (an error, a cancelled statement, a killed
// session): its lock is released, its draw is burnt. The server may crash: every
// caller dies, base and counter stay, and counter may come back some draws ahead,
// as PostgreSQL logs sequences ahead.
//
// Time is scaled down to 4 ticks a millisecond, so that overflow, waiting and
// refusal lie within reach.
//
// # Actions and SQL
//
//	begin         next_id       base := read_base(shard)
//	fastDraw      next_id       tick := draw(base, shard)
//	fastClock     is_issuable   the clock within max_lead_ms before the tick, and 1 ms after
//	fastCheck     is_issuable   base = read_base(shard)
//	slowCheck     next_id_slow  IF base = read_sequence(base_seq)
//	slowClock     next_id_slow  EXIT WHEN tick >> 10 >= now_ms
//	tryLock       next_id_slow  IF pg_try_advisory_xact_lock
//	lockedRead    next_id_slow  base := read_sequence(base_seq), under the lock
//	lockedDraw    next_id_slow  tick := base + nextval(counter_seq), under the lock
//	lockedClock   next_id_slow  IF tick >> 10 < now_ms, under the lock
//	catchUp       next_id_slow  base := setval(base_seq, base + (now_ms << 10) - tick - 1)
//	catchUpDraw   next_id_slow  tick := base + nextval(counter_seq), after the setval
//	unlock        next_id_slow  RAISE SQLSTATE 'IDEND': the rollback releases the lock
//	slowRead      next_id_slow  base := ..., at the end of the loop
//	slowDraw      next_id_slow  tick := ..., at the end of the loop
//	decide        next_id_slow  wait_or_refuse(shard, tick, now_ms): issue or ID001
//	batchBase     reserve_ticks base := read_sequence(base_seq), under the lock that begin took
//	batchDrawn    reserve_ticks drawn := read_sequence(counter_seq)
//	batchClock    reserve_ticks now_ms, lag, first, last; EXIT WHEN pgid.is_refused(last, now_ms)
//	batchSet      reserve_ticks setval(base_seq, base + lag + count)
//	batchCheck    reserve_ticks EXIT WHEN meanwhile <= lag
//	raiseRead     raise_shard   base := read_sequence(base_seq), under the lock
//	raiseLast     raise_shard   lag := tick - (base + last value of counter)
//	raiseSet      raise_shard   setval(base_seq, base + lag)
//	retireRead    retire_shard  base := pgid.base(shard), under the lock that begin took
//	retireStop    retire_shard  setval(base_seq, retiring_base + 1 + base), unless it was
//	retireLast    retire_shard  pgid.drawn(shard)
//	retireSet     retire_shard  setval(base_seq, retired_base + 1 + last tick)
//
// # Properties
//
// No tick is issued twice. A call that begins after another returned gets larger
// ticks; after a raise has returned, they exceed its tick. No tick that was or will be
// issued exceeds the one that a retirement returns. Some caller can always act. A call begins with its first action and returns with its last: a call that
// is given up to the network before or after that is only checked the harder.
package interleave

const (
	callers = 3 // at most
	seqBits = 2 // 4 ticks a millisecond
	maxLead = 1 // milliseconds
	maxWait = 1 // milliseconds

	// Every tick of a scenario is below the first, as every tick is below 2^51.
	retiringBase = 40
	retiredBase  = 80
	neverRetired = 127 // as a last tick
)

// pads are the numbers of ticks that a batch may leave free for others.
var pads = [...]int8{0, 3}

// A Call is one call that a caller makes. Exactly one kind: the zero Call is
// next_id, Batch > 0 is reserve_ticks, Raise > 0 is raise_shard, Retire is retire_shard.
type Call struct {
	Batch  int8 // how many ticks to reserve
	Raise  int8 // the tick to raise the shard past
	Retire bool
}

// A Fault is a way to get the algorithm wrong. Zero is the algorithm as it is.
type Fault uint8

// The faults, each of which the search must find.
const (
	NoSecondRead  Fault = iota + 1 // issue without comparing base before and after the draw
	NoLock                         // change base without the lock
	StaleBase                      // catch up from the base that was read before taking the lock
	NoBatchCheck                   // keep a batch without looking for draws meanwhile
	LaxBatchCheck                  // keep it with one draw meanwhile more than it left room for
	LowFirst                       // begin it one tick too early
	ShortSet                       // raise base by one tick less than the batch is long
	NoStop                         // retire in one step, by the draws before it
)

// at says which action a caller takes next.
type at uint8

const (
	begin at = iota
	fastDraw
	fastClock
	fastCheck
	slowCheck
	slowClock
	tryLock
	lockedRead
	lockedDraw
	lockedClock
	catchUp
	catchUpDraw
	unlock
	slowRead
	slowDraw
	decide
	batchBase
	batchDrawn
	batchClock
	batchSet
	batchCheck
	raiseRead
	raiseLast
	raiseSet
	retireRead
	retireStop
	retireLast
	retireSet
	atEnd
)

var atNames = [atEnd]string{
	"begin", "fastDraw", "fastClock", "fastCheck", "slowCheck", "slowClock", "tryLock", "lockedRead", "lockedDraw",
	"lockedClock", "catchUp", "catchUpDraw", "unlock", "slowRead", "slowDraw", "decide", "batchBase", "batchDrawn",
	"batchClock", "batchSet", "batchCheck", "raiseRead", "raiseLast", "raiseSet",
	"retireRead", "retireStop", "retireLast", "retireSet",
}

// caller is one session. Registers that the next actions do not read are zero, so
// that states which differ in nothing that matters are one state.
type caller struct {
	call  uint8 // how many of its calls are over
	at    at
	holds bool // the lock
	floor int8 // the largest tick that had returned when the call began
	base  int8
	tick  int8 // base + n; for a batch the first tick of its range
	lag   int8 // how much to add to base
}

// rank orders callers, for the search to tell states apart that differ in more than
// which of two equal callers does what.
func (c caller) rank() uint64 {
	rank := uint64(c.call)<<1 | 1
	if c.holds {
		rank ^= 1
	}
	rank = rank<<8 | uint64(c.at)
	for _, register := range [...]int8{c.floor, c.base, c.tick, c.lag} {
		rank = rank<<8 | uint64(uint8(register))
	}
	return rank
}

// state is everything. It is comparable, and small: the search keeps all of them.
type state struct {
	base    int8
	counter int8
	top     int8 // the largest tick that has returned, or that a raise was for
	end     int8 // the last tick that a retirement has returned
	crashes int8 // still to come
	locked  bool
	callers [callers]caller
	issued  uint64 // the set of issued ticks
}

func initial(crashes int8) state {
	return state{base: -1, counter: 0, top: -1, end: neverRetired, crashes: crashes} // a new shard
}

// leave ends the caller's call, however it went.
func (s *state) leave(i int) {
	c := &s.callers[i]
	if c.holds {
		s.locked = false
	}
	*c = caller{call: c.call + 1}
}

// issue returns the ticks first .. first+k-1 to the caller, and ends its call. It
// says which promise that breaks, if any.
func (s *state) issue(i int, first, k int8) (broken string) {
	for tick := first; tick < first+k; tick++ {
		if tick < 0 || tick > 63 {
			return "tick outside the model"
		}
		if s.issued&(1<<tick) != 0 {
			broken = "a tick is issued twice"
		}
		s.issued |= 1 << tick
	}
	if broken == "" && first <= s.callers[i].floor {
		broken = "a later call got a smaller tick"
	}
	if broken == "" && first+k-1 > s.end {
		broken = "a retired shard issued a tick past its last"
	}
	s.top = max(s.top, first+k-1)
	s.leave(i)
	return broken
}

// nextval draws from the counter.
func (s *state) nextval() int8 {
	s.counter++
	return s.counter
}

// lead is how far a tick leads a reading of the clock, in milliseconds.
func lead(tick, now int8) int8 { return tick>>seqBits - now }
