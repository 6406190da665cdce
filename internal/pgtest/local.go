package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nextid/postgres-ids/internal/localpg"
)

type localBackend struct {
	*localpg.Server
	clock string // the file that says what time it is; "" for the real clock
}

func newLocal(opts options) (backend, error) {
	local := localpg.Options{Version: os.Getenv("PGID_TEST_VERSION")}
	b := &localBackend{}
	if opts.fakeClock {
		library, err := findFaketime()
		if err != nil {
			return nil, err
		}
		file, err := os.CreateTemp("", "pgid-clock-")
		if err != nil {
			return nil, err
		}
		b.clock = file.Name()
		_ = file.Close()
		if err := b.setClock(0); err != nil {
			return nil, err
		}
		local.Env = fakeClockEnv(b.clock)
		local.Env["LD_PRELOAD"] = library
	}
	var err error
	if b.Server, err = localpg.Start(local); err != nil {
		_ = os.Remove(b.clock)
		return nil, err
	}
	return b, nil
}

func (b *localBackend) describe() string { return "a local server: " + b.Origin }
func (b *localBackend) url() string      { return b.URL() }

func (b *localBackend) setClock(offset time.Duration) error {
	next := b.clock + ".next"
	if err := os.WriteFile(next, []byte(fakeOffset(offset)), 0o644); err != nil {
		return err
	}
	if err := os.Chmod(next, 0o644); err != nil {
		return err
	}
	return os.Rename(next, b.clock) // a server process that finds the file empty ends, and takes the server along
}

func (b *localBackend) restart() error {
	if err := b.Halt(); err != nil {
		return err
	}
	return b.Restart()
}

func (b *localBackend) kill() error          { return b.Kill() }
func (b *localBackend) start() error         { return b.Restart() }
func (b *localBackend) log() (string, error) { return b.Log() }

func (b *localBackend) shell(script string) (string, bool, error) {
	cmd := exec.Command("bash", "-o", "pipefail", "-c", script)
	cmd.Env = append(os.Environ(), "PATH="+b.Bin()+string(os.PathListSeparator)+os.Getenv("PATH"),
		"PGHOST=127.0.0.1", fmt.Sprintf("PGPORT=%d", b.Port()), "PGUSER=postgres", "PGPASSWORD=postgres")
	out, err := cmd.CombinedOutput()
	return string(out), true, err
}

func (b *localBackend) stop() error {
	if b.clock != "" {
		_ = os.Remove(b.clock)
	}
	return b.Stop()
}

// fakeClockEnv makes libfaketime read the clock's offset from a file at each call.
// The monotonic clock stays real: time-outs and sleeps take the time they take.
func fakeClockEnv(file string) map[string]string {
	return map[string]string{
		"FAKETIME_TIMESTAMP_FILE":      file,
		"FAKETIME_NO_CACHE":            "1",
		"FAKETIME_DONT_FAKE_MONOTONIC": "1",
	}
}

func fakeOffset(offset time.Duration) string {
	s := strconv.FormatFloat(offset.Seconds(), 'f', 3, 64)
	if offset >= 0 {
		s = "+" + s
	}
	return s
}

var errNoFaketime = errors.New("libfaketime is not installed: install your system's package libfaketime, or use PGID_TEST_BACKEND=container")

func findFaketime() (string, error) {
	for _, pattern := range []string{
		"/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib*/faketime/libfaketime.so.1", "/opt/homebrew/lib/faketime/libfaketime.1.dylib",
	} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0], nil
		}
	}
	return "", errNoFaketime
}
