package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nextid/postgres-ids/migrations"
)

// A Database is a test's own database. Its owner is a plain role: no superuser.
type Database struct {
	URL      string // as the owner
	SuperURL string // as a superuser
	Name     string
	Pool     *pgxpool.Pool // as the owner

	server *Server
}

var (
	serial   atomic.Int64
	template struct {
		once sync.Once
		name string
		err  error
		copy sync.Mutex // a template can be copied by one session at a time
	}
)

// New returns a database with pgid installed, as its plain owner would install it.
func New(t testing.TB) *Database {
	t.Helper()
	server := sharedServer(t)
	template.once.Do(func() {
		template.name = newName("template")
		if template.err = createDatabase(server.URL, template.name, ""); template.err == nil {
			template.err = migrations.Up(context.Background(), ownerURL(server.URL, template.name))
		}
	})
	if template.err != nil {
		t.Fatalf("pgtest: template database: %v", template.err)
	}
	return open(t, server, template.name)
}

// NewEmpty returns a database without pgid.
func NewEmpty(t testing.TB) *Database {
	t.Helper()
	return open(t, sharedServer(t), "")
}

// NewOn returns a database with pgid installed on a server of the test's own.
func NewOn(t testing.TB, server *Server) *Database {
	t.Helper()
	db := open(t, server, "")
	if err := migrations.Up(t.Context(), db.URL); err != nil {
		t.Fatalf("pgtest: install pgid: %v", err)
	}
	return db
}

func open(t testing.TB, server *Server, from string) *Database {
	t.Helper()
	db := &Database{Name: newName("test"), server: server}
	if from != "" {
		template.copy.Lock()
	}
	err := createDatabase(server.URL, db.Name, from)
	if from != "" {
		template.copy.Unlock()
	}
	if err != nil {
		t.Fatalf("pgtest: create database: %v", err)
	}
	db.URL, db.SuperURL = ownerURL(server.URL, db.Name), withDatabase(server.URL, db.Name)
	if db.Pool, err = pgxpool.New(t.Context(), db.URL); err != nil {
		t.Fatalf("pgtest: pool: %v", err)
	}
	t.Cleanup(func() {
		db.Pool.Close()
		if err := execute(server.URL, "DROP DATABASE IF EXISTS "+db.Name+" WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: drop database: %v", err)
		}
	})
	return db
}

// Connect opens a session of its own, which ends with the test.
func (db *Database) Connect(t testing.TB) *pgx.Conn {
	t.Helper()
	return Connect(t, db.URL)
}

// Connect opens a session on a URL, which ends with the test.
func Connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	return connect(t, url, func(*pgx.ConnConfig) {})
}

// ConnectMode is Connect, in one of the ways that pgx has to execute a query.
func ConnectMode(t testing.TB, url string, mode pgx.QueryExecMode) *pgx.Conn {
	t.Helper()
	return connect(t, url, func(config *pgx.ConnConfig) { config.DefaultQueryExecMode = mode })
}

func connect(t testing.TB, url string, set func(*pgx.ConnConfig)) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatalf("pgtest: connect: %v", err)
	}
	set(config)
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("pgtest: connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Shell runs a script with the server's own client programs, pg_dump for example, and
// returns what it printed. A database given by URL has none that surely fit, and the
// test is skipped there.
func (db *Database) Shell(t testing.TB, script string) (string, error) {
	t.Helper()
	out, ok, err := db.server.backend.shell(script)
	if !ok {
		t.Skip("pgtest: the client programs of PGID_TEST_DATABASE_URL's server are not known: run this test on a container or a local server")
	}
	return out, err
}

// As is the database's URL for another role.
func (db *Database) As(role string) string { return asRole(db.SuperURL, role) }

// Role creates a role that may log in, and nothing else, and returns its name. It
// ends with the test.
func (db *Database) Role(t testing.TB) string {
	t.Helper()
	role := newName("role")
	// Trust authentication asks for no password, a server by URL may.
	if err := execute(db.SuperURL, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'pgid'", role)); err != nil {
		t.Fatalf("pgtest: create role: %v", err)
	}
	t.Cleanup(func() {
		if err := execute(db.SuperURL, fmt.Sprintf("DROP OWNED BY %[1]s CASCADE; DROP ROLE %[1]s", role)); err != nil {
			t.Errorf("pgtest: drop role: %v", err)
		}
	})
	return role
}

// Exec runs statements as the owner.
func (db *Database) Exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Query runs a query of one row and one column as the owner.
func Query[T any](t testing.TB, db *Database, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := db.Pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

const ownerRole = "pgid_test_owner"

func createDatabase(server, name, from string) error {
	owner := fmt.Sprintf(`DO $$ BEGIN CREATE ROLE %s LOGIN PASSWORD 'pgid'; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$`, ownerRole)
	if err := execute(server, owner); err != nil {
		return err
	}
	create := fmt.Sprintf("CREATE DATABASE %s OWNER %s", name, ownerRole)
	if from != "" {
		create += " TEMPLATE " + from
	}
	return execute(server, create)
}

func execute(url, sql string) error {
	ctx, stop := withTimeout()
	defer stop()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

func newName(kind string) string {
	return fmt.Sprintf("pgid_%s_%d_%d", kind, os.Getpid(), serial.Add(1))
}

func ownerURL(server, database string) string {
	return asRole(withDatabase(server, database), ownerRole)
}

func withDatabase(server, database string) string {
	u, err := url.Parse(server)
	if err != nil {
		panic(err) // pgx has parsed it before
	}
	u.Path = "/" + database
	return u.String()
}

func asRole(server, role string) string {
	u, err := url.Parse(server)
	if err != nil {
		panic(err) // pgx has parsed it before
	}
	u.User = url.UserPassword(role, "pgid")
	return u.String()
}
