package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/pgid"
)

// A fault is what a soak injects, more or less often.
type fault struct {
	name   string
	weight int
	inject func(t *testing.T, s *soaker, random *rand.Rand)
}

var soakFaults = []fault{
	{"statements cancelled", 6, func(t *testing.T, s *soaker, _ *rand.Rand) { s.signal(t, "pg_cancel_backend", 10) }},
	{"sessions terminated", 4, func(t *testing.T, s *soaker, _ *rand.Rand) { s.signal(t, "pg_terminate_backend", 4) }},
	{"server killed (SIGKILL)", 2, func(t *testing.T, s *soaker, _ *rand.Rand) {
		s.server.Kill(t)
		s.server.Start(t)
		s.connect(t)
	}},
	{"clock back by up to a second", 4, func(t *testing.T, s *soaker, random *rand.Rand) {
		s.clock(t, -time.Duration(random.IntN(1000))*time.Millisecond, 300*time.Millisecond)
	}},
	{"clock back by an hour, for 0.3 s", 2, func(t *testing.T, s *soaker, _ *rand.Rand) {
		s.clock(t, -time.Hour, 300*time.Millisecond)
	}},
	{"clock ahead by up to a second", 2, func(t *testing.T, s *soaker, random *rand.Rand) {
		ahead := time.Duration(random.IntN(1000)) * time.Millisecond
		s.clock(t, ahead, 200*time.Millisecond)
		time.Sleep(ahead + 500*time.Millisecond) // max_lead, and some more: see TestSoak
	}},
	{"a shard's lock held by a session", 3, lockSitter},
	{"client process killed (SIGKILL)", 3, func(t *testing.T, s *soaker, random *rand.Rand) {
		life := time.Duration(200+random.IntN(500)) * time.Millisecond
		name := fmt.Sprintf("client process #%d", len(s.injected))
		if err := child(t.Context(), s.server.DatabaseURL(s.db), s.ledger, name, life); err != nil {
			t.Error(err)
		}
	}},
	{"max_lead and max_wait changed", 2, func(t *testing.T, s *soaker, random *rand.Rand) {
		s.operate(t, "SELECT pgid.configure($1, $2)", 50+random.IntN(150), 500+random.IntN(1000))
	}},
	{"shard created", 2, createShard},
	{"shard advanced by 50 ms", 2, func(t *testing.T, s *soaker, random *rand.Rand) {
		s.operate(t, "SELECT pgid.advance_shard($1, pgid.max_id(clock_timestamp() + interval '50 ms'))", random.IntN(3))
	}},
	{"shard retired", 2, retireShard},
}

// pick is the n-th fault: first each in turn, then at random by weight.
func pick(random *rand.Rand, n int) fault {
	if n < len(soakFaults) {
		return soakFaults[n]
	}
	total := 0
	for _, f := range soakFaults {
		total += f.weight
	}
	at := random.IntN(total)
	for _, f := range soakFaults {
		if at -= f.weight; at < 0 {
			return f
		}
	}
	panic("unreachable")
}

// operate runs a statement that must succeed.
func (s *soaker) operate(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := s.operator.Exec(t.Context(), sql, args...); err != nil {
		t.Errorf("%s: %v", sql, err)
	}
}

// signal cancels or terminates random sessions of clients.
func (s *soaker) signal(t *testing.T, function string, sessions int) {
	t.Helper()
	for range sessions {
		s.operate(t, "SELECT "+function+`(pid) FROM (
			SELECT pid FROM pg_stat_activity
			 WHERE datname = current_database() AND backend_type = 'client backend' AND state = 'active'
			   AND application_name <> 'tormentor'
			 ORDER BY random() LIMIT 1) AS victim`)
	}
}

// clock sets the clock wrong for a while.
func (s *soaker) clock(t *testing.T, offset, lasts time.Duration) {
	t.Helper()
	s.server.SetClock(t, offset)
	time.Sleep(lasts)
	s.server.SetClock(t, 0)
}

// lockSitter holds a shard's lock for up to a second.
func lockSitter(t *testing.T, s *soaker, random *rand.Rand) {
	conn, err := s.operator.Acquire(t.Context())
	if err != nil {
		t.Error(err)
		return
	}
	sitter := conn.Hijack()
	if _, err := sitter.Exec(t.Context(), "SELECT pg_advisory_lock(1885825380, $1::integer)", random.IntN(3)); err != nil {
		t.Error(err)
	}
	time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
	_ = sitter.Close(t.Context())
}

// An extraShard is one that comes and goes, with a client of its own.
type extraShard struct {
	number int
	book   *Book
	done   chan struct{} // closed when the client was told that the shard is retired
}

func createShard(t *testing.T, s *soaker, random *rand.Rand) {
	if len(s.extra) >= 4 {
		retireShard(t, s, random)
	}
	shard := extraShard{number: s.next, done: make(chan struct{})}
	s.next++
	s.operate(t, "SELECT pgid.create_shard($1)", shard.number)
	draw := single([]int{shard.number}, Strict)
	shard.book = s.fleet.add(fmt.Sprintf("a shard for a while #%d", shard.number), func(ctx context.Context, c *client) error {
		err := paced(time.Millisecond, draw)(ctx, c)
		if sqlstate(err) == "ID003" {
			close(shard.done)
			return errDone
		}
		return err
	})
	s.extra = append(s.extra, shard)
}

// retireShard retires the oldest of those that createShard made. Nobody has, or gets, an ID past the
// last one.
func retireShard(t *testing.T, s *soaker, _ *rand.Rand) {
	if len(s.extra) == 0 {
		return
	}
	shard := s.extra[0]
	s.extra = s.extra[1:]
	var last pgid.ID
	if err := s.operator.QueryRow(t.Context(), "SELECT coalesce(pgid.retire_shard($1), -1)", shard.number).Scan(&last); err != nil {
		t.Errorf("retire shard %d: %v", shard.number, err)
		return
	}
	select {
	case <-shard.done:
	case <-time.After(20 * time.Second):
		t.Errorf("shard %d is retired, but its client was not told", shard.number)
	}
	if runs := shard.book.Runs(); len(runs) > 0 && runs[len(runs)-1].Last > last {
		t.Errorf("shard %d was retired with the last ID %d; its client has %d", shard.number, last, runs[len(runs)-1].Last)
	}
}
