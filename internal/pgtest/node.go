package pgtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nextid/postgres-ids/migrations"
)

// A Node is one of a host's servers, with a clock of its own. It differs from a
// [Server] in what may be done to it: it can be killed, copied and promoted.
type Node struct {
	Bin  string // the directory of its programs: the host's, unless changed before Start
	Data string // its data directory
	Port int    // seen from the host

	host    *Host
	name    string
	address string // seen from here
}

// nodeSettings make a server small, fast, and fit to be a primary. fsync is off: a test
// kills servers, not machines. What pg_rewind needs of the log is kept.
const nodeSettings = `
listen_addresses = '*'
fsync = off
jit = off
max_connections = 60
shared_buffers = 32MB
wal_level = logical
wal_log_hints = on
wal_keep_size = 512MB
wal_retrieve_retry_interval = 100ms
logging_collector = off
`

// Add names a further server of the host. It has no data yet.
func (h *Host) Add(t testing.TB, name string) *Node {
	t.Helper()
	if len(h.nodes) == len(h.ports) {
		t.Fatalf("pgtest: a host has %d servers at most", len(h.ports))
	}
	port := h.ports[len(h.nodes)]
	n := &Node{Bin: h.Bin, Data: h.path(name), Port: port.inside, host: h, name: name, address: port.address}
	h.nodes = append(h.nodes, n)
	n.SetClock(t, 0)
	return n
}

// NewNode starts a new server with an empty cluster.
func (h *Host) NewNode(t testing.TB, name string, initdb ...string) *Node {
	t.Helper()
	n := h.Add(t, name)
	n.Init(t, initdb...)
	n.Start(t)
	return n
}

// Init makes an empty cluster, with further arguments for initdb.
func (n *Node) Init(t testing.TB, arguments ...string) {
	t.Helper()
	n.host.Must(t, fmt.Sprintf(`%[1]s/initdb -D %[2]s -U postgres --auth=trust --encoding=UTF8 --locale=C.UTF-8 --no-sync %[3]s >/dev/null
echo 'host all all all trust' >>%[2]s/pg_hba.conf
cat >>%[2]s/postgresql.conf <<'END'
%[4]sunix_socket_directories = '%[5]s'
END`, n.Bin, n.Data, strings.Join(arguments, " "), nodeSettings, n.host.dir))
}

// Standby starts a further server: a streaming replica of this one.
func (n *Node) Standby(t testing.TB, name string) *Node {
	t.Helper()
	s := n.host.Add(t, name)
	n.host.Must(t, fmt.Sprintf("pg_basebackup -D %s -d 'host=127.0.0.1 port=%d user=postgres application_name=%s' -c fast -X stream -R --no-sync",
		s.Data, n.Port, name))
	s.Start(t)
	return s
}

// control is a call of pg_ctl.
func (n *Node) control(action string, arguments ...string) string {
	return fmt.Sprintf("%s/pg_ctl %s -D %s -w -t 60 -s %s", n.Bin, action, n.Data, strings.Join(arguments, " "))
}

// Start starts the server and waits until it answers.
func (n *Node) Start(t testing.TB) {
	t.Helper()
	environment := "env LD_PRELOAD='" + n.host.library + "'"
	for k, v := range fakeClockEnv(n.host.path(n.name + ".clock")) {
		environment += " " + k + "=" + v
	}
	log := n.host.path(n.name + ".log")
	out, err := n.host.Shell(environment + " " + n.control("start", "-l", log, "-o", fmt.Sprintf("'-p %d'", n.Port)) + " </dev/null")
	if err != nil {
		tail, _ := n.host.Shell("tail -n 20 " + log)
		t.Fatalf("pgtest: start %s: %v: %s\n%s", n.name, err, out, tail)
	}
	for range 200 {
		if err = execute(n.URL(), "SELECT"); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("pgtest: %s does not answer: %v", n.name, err)
}

// Stop stops the server as an operator would. A primary's standbys have all then.
func (n *Node) Stop(t testing.TB) {
	t.Helper()
	n.host.Must(t, n.control("stop", "--mode=fast"))
}

// Kill ends the server and all its sessions at once, as a machine does that fails.
func (n *Node) Kill(t testing.TB) {
	t.Helper()
	// Its postmaster is stopped first, so that it starts no further processes. Where the
	// kernel does not name them, they end by themselves once it is gone.
	n.host.Must(t, fmt.Sprintf(`pid=$(head -n 1 %s/postmaster.pid); kill -STOP $pid
all="$(cat /proc/$pid/task/$pid/children 2>/dev/null) $pid"; kill -KILL $all
for i in $(seq 200); do kill -0 $all 2>/dev/null || exit 0; sleep 0.02; done; exit 1`, n.Data))
}

// Promote makes a standby a primary.
func (n *Node) Promote(t testing.TB) {
	t.Helper()
	n.host.Must(t, n.control("promote"))
}

// SetClock steps the server's clock to the real time plus offset.
func (n *Node) SetClock(t testing.TB, offset time.Duration) {
	t.Helper()
	file := n.host.path(n.name + ".clock")
	// Renamed, because a server process that finds the file empty ends, and takes the server along.
	n.host.Must(t, fmt.Sprintf("printf %%s %s >%s.next && mv %s.next %s", fakeOffset(offset), file, file, file))
}

// Exec runs statements as the superuser, each in a transaction of its own.
func (n *Node) Exec(t testing.TB, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if err := execute(n.URL(), sql); err != nil {
			t.Fatalf("pgtest: %s on %s: %v", sql, n.name, err)
		}
	}
}

// Await waits until a query, as the superuser, gives true.
func (n *Node) Await(t testing.TB, sql string) {
	t.Helper()
	conn := Connect(t, n.URL())
	for range 600 {
		var met bool
		if err := conn.QueryRow(t.Context(), sql).Scan(&met); err != nil {
			t.Fatalf("pgtest: %s on %s: %v", sql, n.name, err)
		}
		if met {
			_ = conn.Close(t.Context())
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("pgtest: %s has waited 30 s for %s", n.name, sql)
}

// URL is the connection URL of the server's superuser.
func (n *Node) URL() string {
	return "postgres://postgres@" + n.address + "/postgres?sslmode=disable&connect_timeout=10"
}

// Create creates a database with pgid installed. It ends with the host.
func (n *Node) Create(t testing.TB, name string) *Database {
	t.Helper()
	if err := createDatabase(n.URL(), name, ""); err != nil {
		t.Fatalf("pgtest: create database: %v", err)
	}
	if err := migrations.Up(t.Context(), ownerURL(n.URL(), name)); err != nil {
		t.Fatalf("pgtest: install pgid: %v", err)
	}
	return n.Open(t, name)
}

// Open is a database that the server has: created there, or copied.
func (n *Node) Open(t testing.TB, name string) *Database {
	t.Helper()
	db := &Database{Name: name, URL: ownerURL(n.URL(), name), SuperURL: withDatabase(n.URL(), name)}
	var err error
	if db.Pool, err = pgxpool.New(t.Context(), db.URL); err != nil {
		t.Fatalf("pgtest: pool: %v", err)
	}
	t.Cleanup(db.Pool.Close)
	return db
}

// Shell runs a script on the server's host, where client programs reach the server. It
// must succeed; what it printed is returned.
func (n *Node) Shell(t testing.TB, script string) string {
	t.Helper()
	return n.host.Must(t, fmt.Sprintf("export PGPORT=%d; %s", n.Port, script))
}
