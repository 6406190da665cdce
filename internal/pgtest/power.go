package pgtest

import (
	"testing"
	"time"
)

// Restart stops the server and starts it again. Its URL may change.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.backend.restart(); err != nil {
		t.Fatalf("pgtest: restart the server: %v", err)
	}
	s.answer(t)
}

// Kill ends the server with SIGKILL, all of its processes at once. Start starts it
// again; in between, SetClock may set its clock.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.backend.kill(); err != nil {
		t.Fatalf("pgtest: kill the server: %v", err)
	}
}

// Start starts a server that was killed, on its data. Its URL may change.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.backend.start(); err != nil {
		t.Fatalf("pgtest: start the server: %v", err)
	}
	s.answer(t)
}

// Log is what the server has logged since the first start.
func (s *Server) Log(t testing.TB) string {
	t.Helper()
	text, err := s.backend.log()
	if err != nil {
		t.Fatalf("pgtest: read the server's log: %v", err)
	}
	return text
}

// answer waits until the server answers.
func (s *Server) answer(t testing.TB) {
	t.Helper()
	s.URL = s.backend.url()
	// What was waited for, a line in its log, may be that of the first start.
	var err error
	for range 400 {
		if err = execute(s.URL, "SELECT"); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("pgtest: the server does not answer again: %v", err)
}
