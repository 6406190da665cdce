// Package pgtest gives tests a PostgreSQL: a server for each test binary, and a
// database of its own for each test.
//
// The server is, in this order: PGID_TEST_DATABASE_URL (a superuser's URL), else a
// container through Docker, else a local server. PGID_TEST_BACKEND=url, container or
// local forces one, and fails if it cannot be had. PGID_TEST_VERSION picks the major
// version of a container (default 17) or a local server (default: the newest).
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// A Server is a PostgreSQL server that tests use.
type Server struct {
	URL     string // of a superuser
	backend backend
}

// backend is what differs between the ways to have a server.
type backend interface {
	describe() string
	url() string
	// setClock steps the server's clock to the real time plus offset.
	setClock(offset time.Duration) error
	// restart stops the server, as a smart operator would, and starts it again.
	restart() error
	// kill ends the server with SIGKILL, all of its processes; start starts it again on
	// what it has left. In between, the clock may be set.
	kill() error
	start() error
	// log is what the server has logged since it was first started.
	log() (string, error)
	// shell runs a script where the server's client programs are in the PATH and
	// reach the server as its superuser. ok is false where that cannot be had.
	shell(script string) (out string, ok bool, err error)
	stop() error
}

// options of a server that a test has for itself.
type options struct {
	fakeClock bool
}

var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Run is the body of a TestMain: it runs the tests, then stops the server that they
// have started, if they have.
func Run(m *testing.M) int {
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.backend.stop(); err != nil {
			fmt.Fprintf(os.Stderr, "pgtest: stop the server: %v\n", err)
			code = max(code, 1)
		}
	}
	return code
}

// sharedServer starts the test binary's server on first use.
func sharedServer(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() {
		b, err := newBackend(options{})
		if err != nil {
			shared.err = err
			return
		}
		fmt.Fprintf(os.Stderr, "pgtest: %s\n", b.describe())
		shared.server = &Server{URL: b.url(), backend: b}
	})
	if shared.err != nil {
		t.Fatalf("pgtest: %v", shared.err)
	}
	return shared.server
}

// NewClockServer starts a server whose clock the test may step: one with
// libfaketime preloaded. It ends with the test. A database given by URL cannot do
// that, nor can a local server without libfaketime: the test is skipped there, and
// the summary of «make test» says so; but where CI is set, it fails.
func NewClockServer(t testing.TB) *Server {
	t.Helper()
	b, err := newBackend(options{fakeClock: true})
	if errors.Is(err, errNoFaketime) && os.Getenv("CI") == "" {
		t.Skipf("pgtest: %v", err)
	}
	if err != nil {
		t.Fatalf("pgtest: a server with a clock to step: %v", err)
	}
	if b == nil {
		t.Skip("pgtest: the clock of PGID_TEST_DATABASE_URL's server cannot be stepped: run this test on a container or a local server")
	}
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Errorf("pgtest: stop the server: %v", err)
		}
	})
	return &Server{URL: b.url(), backend: b}
}

// SetClock steps the server's clock to the real time plus offset.
func (s *Server) SetClock(t testing.TB, offset time.Duration) {
	t.Helper()
	if err := s.backend.setClock(offset); err != nil {
		t.Fatalf("pgtest: step the clock: %v", err)
	}
}

// DatabaseURL is where the server now has a database that was opened before a restart.
func (s *Server) DatabaseURL(db *Database) string { return ownerURL(s.URL, db.Name) }

// newBackend chooses as the package comment says. It returns nil for a server by
// URL when the options ask for what such a server cannot do.
func newBackend(opts options) (backend, error) {
	url := os.Getenv("PGID_TEST_DATABASE_URL")
	switch forced := os.Getenv("PGID_TEST_BACKEND"); forced {
	case "url":
		if url == "" {
			return nil, fmt.Errorf("PGID_TEST_BACKEND=url needs PGID_TEST_DATABASE_URL, a superuser's connection URL")
		}
		return newURL(url, opts), nil
	case "container":
		if err := dockerAnswers(); err != nil {
			return nil, fmt.Errorf("PGID_TEST_BACKEND=container: %w", err)
		}
		return newContainer(opts)
	case "local":
		return newLocal(opts)
	case "":
		if url != "" {
			return newURL(url, opts), nil
		}
		if dockerAnswers() == nil {
			return newContainer(opts)
		}
		return newLocal(opts)
	default:
		return nil, fmt.Errorf("PGID_TEST_BACKEND=%s is unknown: use url, container or local", forced)
	}
}

type urlBackend string

func newURL(url string, opts options) backend {
	if opts.fakeClock {
		return nil
	}
	return urlBackend(url)
}

func (b urlBackend) describe() string                   { return "the server of PGID_TEST_DATABASE_URL" }
func (b urlBackend) url() string                        { return string(b) }
func (b urlBackend) setClock(_ time.Duration) error     { return fmt.Errorf("not a server of ours") }
func (b urlBackend) restart() error                     { return fmt.Errorf("not a server of ours") }
func (b urlBackend) kill() error                        { return fmt.Errorf("not a server of ours") }
func (b urlBackend) start() error                       { return fmt.Errorf("not a server of ours") }
func (b urlBackend) log() (string, error)               { return "", fmt.Errorf("not a server of ours") }
func (b urlBackend) shell(string) (string, bool, error) { return "", false, nil }
func (b urlBackend) stop() error                        { return nil }

// timeout bounds the slowest thing done here: building an image.
func withTimeout() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 15*time.Minute)
}
