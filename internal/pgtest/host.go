package pgtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
)

// A Host is a machine for a test's own servers, several of them: a primary and its
// standby, or two versions. It is a container, or this machine, as the tests' other
// servers are. See [Host.NewNode].
type Host struct {
	Bin string // the directory of the server's programs

	dir     string   // where its nodes live
	as      []string // the command that runs a script as the servers' account
	library string   // libfaketime
	ports   []hostPort
	nodes   []*Node
	ctr     *testcontainers.DockerContainer // nil: this machine
}

// hostPort is where a server listens, and where that is reached from here.
type hostPort struct {
	inside  int
	address string
}

// NewHost returns a host that ends with the test. The test is skipped for a server by
// URL, and for a local server whose installation has no pg_basebackup or that has no
// libfaketime; but where CI is set, the latter fails.
func NewHost(t testing.TB) *Host {
	t.Helper()
	h := &Host{}
	switch b := sharedServer(t).backend.(type) {
	case *containerBackend:
		h.startContainer(t, "pgid-postgres:"+b.version)
	case *localBackend:
		h.Bin = b.Bin()
		h.useMachine(t)
	default:
		t.Skip("pgtest: PGID_TEST_DATABASE_URL's server has no replica that a test may make: run this test on a container or a local server")
	}
	if out, err := h.Shell("pg_basebackup --version"); err != nil {
		t.Skipf("pgtest: this PostgreSQL was installed without pg_basebackup: %s", out)
	}
	return h
}

func (h *Host) startContainer(t testing.TB, image string) {
	t.Helper()
	ctx, stop := withTimeout()
	defer stop()
	inside := []int{6001, 6002, 6003}
	var exposed []string
	for _, p := range inside {
		exposed = append(exposed, fmt.Sprintf("%d/tcp", p))
	}
	// A shell that waits also reaps the servers that a test has killed.
	ctr, err := testcontainers.Run(ctx, image,
		testcontainers.WithEntrypoint("bash", "-c", "sleep infinity & wait $!"),
		testcontainers.WithExposedPorts(exposed...),
		testcontainers.WithLabels(map[string]string{"pgid.test": "host"}),
	)
	t.Cleanup(func() {
		if err := testcontainers.TerminateContainer(ctr, testcontainers.StopTimeout(0)); err != nil {
			t.Errorf("pgtest: stop the host: %v", err)
		}
	})
	if err != nil {
		t.Fatalf("pgtest: container of %s: %v", image, err)
	}
	for _, p := range inside {
		address, err := ctr.PortEndpoint(ctx, fmt.Sprintf("%d/tcp", p), "")
		if err != nil {
			t.Fatalf("pgtest: port %d of the host: %v", p, err)
		}
		h.ports = append(h.ports, hostPort{p, address})
	}
	h.ctr, h.dir, h.library = ctr, "/tmp/nodes", "/usr/$LIB/faketime/libfaketime.so.1"
	h.as = []string{"docker", "exec", "--user=postgres", ctr.GetContainerID()}
	out, err := h.Shell("mkdir " + h.dir + "; ls -d /usr/lib/postgresql/*/bin | tail -n 1")
	if err != nil {
		t.Fatalf("pgtest: the host's programs: %v: %s", err, out)
	}
	h.Bin = strings.TrimSpace(out)
}

func (h *Host) useMachine(t testing.TB) {
	t.Helper()
	library, err := findFaketime()
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("pgtest: %v", err)
	}
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	if h.dir, err = os.MkdirTemp("", "pgid-host-"); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		for _, n := range h.nodes {
			_, _ = h.Shell(n.control("stop", "--mode=immediate"))
		}
		_ = os.RemoveAll(h.dir)
	})
	h.library = library
	if os.Geteuid() == 0 { // PostgreSQL does not run as root
		account := "postgres"
		if exec.Command("id", account).Run() != nil {
			account = "nobody"
		}
		h.as = []string{"setpriv", "--reuid=" + account, "--regid=" + group(account), "--clear-groups"}
		if out, err := exec.Command("chown", account, h.dir).CombinedOutput(); err != nil {
			t.Fatalf("pgtest: %v: %s", err, out)
		}
	}
	if err := os.Chmod(h.dir, 0o755); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("pgtest: %v", err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		h.ports = append(h.ports, hostPort{port, "127.0.0.1:" + strconv.Itoa(port)})
		defer func() { _ = l.Close() }() // after all are found
	}
}

// group is the number of a user's primary group.
func group(account string) string {
	out, err := exec.Command("id", "-g", account).Output()
	if err != nil {
		return "65534"
	}
	return strings.TrimSpace(string(out))
}

// Shell runs a script as the servers' account, with their programs in the PATH, and
// returns what it printed.
func (h *Host) Shell(script string) (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	bin := h.Bin
	if bin == "" {
		bin = "/bin"
	}
	script = "cd /; umask 077; PATH=" + bin + ":$PATH; export PGUSER=postgres PGHOST=127.0.0.1; " + script
	command := append(append([]string{}, h.as...), "bash", "-o", "pipefail", "-c", script)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.WaitDelay = time.Second // a server that keeps the output open
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Must is Shell for a script that must succeed.
func (h *Host) Must(t testing.TB, script string) string {
	t.Helper()
	out, err := h.Shell(script)
	if err != nil {
		t.Fatalf("pgtest: %s: %v: %s", script, err, out)
	}
	return out
}

// path is a file of the host.
func (h *Host) path(name string) string { return filepath.Join(h.dir, name) }
