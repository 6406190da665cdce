package localpg

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// Kill ends the server as a loss of power would, but for what the operating system
// has yet to write: SIGKILL to each of its processes. It returns when they are gone.
// Restart starts it again on its data.
func (s *Server) Kill() error {
	text, err := os.ReadFile(filepath.Join(s.dir, "data", "postmaster.pid"))
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	postmaster, err := strconv.Atoi(line)
	if err != nil {
		return fmt.Errorf("postmaster.pid: %w", err)
	}
	// Stopped, it forks nobody while we look whom it has forked.
	if err := syscall.Kill(postmaster, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop process %d: %w", postmaster, err)
	}
	family, err := childrenOf(postmaster)
	if err != nil {
		return err
	}
	family = append(family, postmaster)
	for _, pid := range family {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill process %d: %w", pid, err)
		}
	}
	for range 1000 {
		living, err := processes()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(living, func(p process) bool { return slices.Contains(family, p.pid) }) {
			s.pg = embedded.NewDatabase(s.config) // the old one takes its server for running
			return s.unlock()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("killed processes do not end")
}

// unlock removes the lock files of a server that is known to be gone. The next one would
// see for itself, but takes a process that nobody has waited for as living.
func (s *Server) unlock() error {
	for _, file := range []string{
		filepath.Join(s.dir, "data", "postmaster.pid"),
		filepath.Join(s.dir, fmt.Sprintf(".s.PGSQL.%d.lock", s.port)),
	} {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

// Log is what the server has logged since it was first started.
func (s *Server) Log() (string, error) {
	var all strings.Builder
	for _, file := range s.logs {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		all.Write(text)
	}
	return all.String(), nil
}

type process struct{ pid, parent int }

// processes are those of this machine that have not ended.
func processes() ([]process, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,stat=").Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	var all []process
	for line := range strings.Lines(string(out)) {
		var p process
		var stat string
		if _, err := fmt.Sscan(line, &p.pid, &p.parent, &stat); err == nil && !strings.HasPrefix(stat, "Z") {
			all = append(all, p)
		}
	}
	return all, nil
}

func childrenOf(parent int) (children []int, err error) {
	all, err := processes()
	for _, p := range all {
		if p.parent == parent {
			children = append(children, p.pid)
		}
	}
	return children, err
}
