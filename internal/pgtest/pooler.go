package pgtest

import (
	"bytes"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A Pooler is a pgbouncer in transaction mode.
type Pooler struct {
	address string
}

// PreparedStatements is the pgbouncer setting that lets clients prepare statements, which
// pgbouncer has from 1.21 on.
const PreparedStatements = "max_prepared_statements"

// NewPooler starts a pgbouncer in front of a database's server, which ends with the
// test; settings are lines of its configuration. The test is skipped where pgbouncer
// is not installed, or too old for a setting; but where CI is set, the former fails.
func NewPooler(t testing.TB, db *Database, settings ...string) *Pooler {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/pgbouncer")
	}
	if err != nil {
		const missing = "pgtest: pgbouncer is not installed: install your system's package pgbouncer"
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	if old := tooOld(program); old != "" && strings.Contains(strings.Join(settings, "\n"), PreparedStatements) {
		t.Skipf("pgtest: %s is older than 1.21, and cannot prepare statements in transaction mode", old)
	}

	server, err := url.Parse(db.SuperURL)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	dir, err := os.MkdirTemp("", "pgid-pooler-") // not t.TempDir, which another user cannot read
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	password, _ := server.User.Password()
	files := map[string]string{
		"users.txt": fmt.Sprintf("%q \"pgid\"\n%q %q\n", ownerRole, server.User.Username(), password),
		"pgbouncer.ini": fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = 8
max_client_conn = 500
log_connections = 0
log_disconnections = 0
%s
`, server.Hostname(), server.Port(), port, filepath.Join(dir, "users.txt"), strings.Join(settings, "\n")),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatalf("pgtest: %v", err)
		}
	}

	command := []string{program, filepath.Join(dir, "pgbouncer.ini")}
	if os.Geteuid() == 0 { // it refuses to run as root
		command = append([]string{"setpriv", "--reuid=nobody", "--regid=" + group("nobody"), "--clear-groups"}, command...)
	}
	_ = l.Close()
	cmd, log := exec.Command(command[0], command[1:]...), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("pgtest: pgbouncer: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed, or its log says why it ended
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("pgtest: pgbouncer: %s", log)
		}
	})
	p := &Pooler{address: "127.0.0.1:" + strconv.Itoa(port)}
	for range 100 {
		select {
		case <-ended:
			t.Fatal("pgtest: pgbouncer has ended")
		case <-time.After(50 * time.Millisecond):
		}
		if err = execute(p.URL(db), "SELECT"); err == nil {
			return p
		}
	}
	t.Fatalf("pgtest: pgbouncer does not answer: %v", err)
	return nil
}

// URL is a database's URL through the pooler, as its owner.
func (p *Pooler) URL(db *Database) string {
	u, err := url.Parse(db.URL)
	if err != nil {
		panic(err) // pgx has parsed it before
	}
	u.Host = p.address
	q := u.Query()
	q.Set("default_query_exec_mode", "exec")
	u.RawQuery = q.Encode()
	return u.String()
}

// tooOld is the version of a pgbouncer that is older than 1.21, else "".
func tooOld(program string) string {
	out, err := exec.Command(program, "--version").Output()
	line, _, _ := strings.Cut(string(out), "\n")
	var major, minor int
	if _, scan := fmt.Sscanf(strings.ToLower(line), "pgbouncer %d.%d", &major, &minor); err != nil || scan != nil {
		return "pgbouncer of an unknown version"
	}
	if major == 1 && minor < 21 {
		return line
	}
	return ""
}
