// Package doctor examines databases that have pgid installed, and says what is wrong
// and how to mend it. It changes nothing: whatever it asks, it asks in transactions
// that are read only.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nextid/postgres-ids/internal/display"
)

// Options of an examination. The zero value works.
type Options struct {
	Timeout time.Duration // of one statement; 10 s if zero
}

const defaultTimeout = 10 * time.Second

// Examine examines the databases, each named by a URL or keyword/value string, alone and
// against each other. A database that cannot be examined is a finding too. The findings
// of a database stand together, in the order of the checks.
func Examine(ctx context.Context, databases []string, opts Options) []Finding {
	if opts.Timeout <= 0 {
		opts.Timeout = defaultTimeout
	}
	exams := make([]*exam, len(databases))
	for i, database := range databases {
		exams[i] = examine(ctx, database, opts)
	}
	compare(exams)
	var findings []Finding
	for _, e := range exams {
		findings = append(findings, shorten(e.findings)...)
	}
	return findings
}

// An exam is the examination of one database.
type exam struct {
	name    string // of the database, without its password
	timeout time.Duration
	conn    *pgx.Conn
	asked   string // the shard that the connection's own options name in pgid.shard

	check    string // under way
	findings []Finding

	server   server
	schema   schema
	shards   []shard
	unread   bool  // the shards could not be read
	named    []int // shards that pgid.shard names in this database
	clock    clock
	examined bool // all that compare asks for is known
}

// A check is one of what an exam consists of.
type check struct {
	name  string
	owner bool // only the owner of the schema pgid sees enough
	run   func(*exam, context.Context) error
}

// The first check that says so ends an exam: see errStop.
var checks = []check{
	{"server", false, (*exam).readServer},
	{"installed", false, (*exam).checkInstalled},
	{"record", false, (*exam).checkRecord},
	{"definitions", false, (*exam).checkDefinitions},
	{"owners", false, (*exam).checkOwners},
	{"grants", false, (*exam).checkGrants},
	{"sequences", false, (*exam).checkSequences},
	{"shards", true, (*exam).checkShards},
	{"lookup", true, (*exam).checkLookup},
	{"clock", true, (*exam).checkClock},
	{"years", true, (*exam).checkYears},
	{"stats", true, (*exam).checkStats},
	{"leases", true, (*exam).checkLeases},
	{"locks", false, (*exam).checkLocks},
	{"setting", true, (*exam).checkSetting},
	{"tables", true, (*exam).checkTables},
	{"durability", false, (*exam).checkDurability},
}

func examine(ctx context.Context, database string, opts Options) *exam {
	e := &exam{check: "connection", timeout: opts.Timeout}
	config, err := pgx.ParseConfig(database)
	if err != nil {
		e.name = "?"
		e.add(Error, "write postgres://user:password@host:5432/database", "this is not the URL of a database")
		return e
	}
	e.name = display.Address(&config.Config)
	// No prepared statements: a pooler in transaction mode would lose them.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = max(e.timeout, defaultTimeout) // a busy server is slow to let anyone in
	}
	e.asked = askedShard(config.RuntimeParams)
	e.conn, err = pgx.ConnectConfig(ctx, config)
	if err != nil {
		reason := oneLine(err)
		var failed *pgconn.ConnectError
		if errors.As(err, &failed) {
			reason = display.ConnectReason(failed)
		}
		e.add(Error, "start the server, or correct the URL", "cannot connect: %s", reason)
		return e
	}
	defer func() { _ = e.conn.Close(context.WithoutCancel(ctx)) }()
	e.runChecks(ctx)
	return e
}

var shardOption = regexp.MustCompile(`(?:-c ?|--)pgid\.shard=(\S+)`)

func askedShard(parameters map[string]string) string {
	if option := shardOption.FindStringSubmatch(parameters["options"]); option != nil {
		return option[1]
	}
	return parameters["pgid.shard"]
}

func (e *exam) runChecks(ctx context.Context) {
	var skipped []string
	for _, c := range checks {
		e.check = c.name
		if c.owner && !e.schema.isOwner {
			skipped = append(skipped, c.name)
			continue
		}
		before := len(e.findings)
		err := c.run(e, ctx)
		if errors.Is(err, errStop) {
			return
		}
		if err != nil {
			e.findings = e.findings[:before]
			e.failed(err)
		}
		if e.conn.IsClosed() {
			e.add(Error, "look into the server's log, then examine again", "the connection was lost: the rest was not examined")
			return
		}
	}
	e.check = "rights"
	if len(skipped) > 0 {
		e.add(Warning, fmt.Sprintf("connect as %s, or: GRANT %s TO %s;", e.schema.owner, ident(e.schema.owner), ident(e.server.Role)),
			"not examined, as the role %s has not the rights of the schema's owner: %s", e.server.Role, strings.Join(skipped, ", "))
	}
	e.examined = len(skipped) == 0 && !e.unread
}

// begin runs do in a transaction that reads only. Its settings end with it, as a pooler
// would hand them on to others.
func (e *exam) begin(ctx context.Context, do func(pgx.Tx) error) error {
	tx, err := e.conn.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	milli := fmt.Sprint(e.timeout.Milliseconds())
	_, err = tx.Exec(ctx, `SELECT pg_catalog.set_config(name, value, true)
		FROM (VALUES ('search_path', 'pg_catalog'), ('statement_timeout', $1::text), ('lock_timeout', $1::text),
		             ('TimeZone', 'UTC'), ('DateStyle', 'ISO'), ('quote_all_identifiers', 'off')) AS s (name, value)`, milli)
	if err != nil {
		return err
	}
	return do(tx)
}

// collect runs a query in a transaction of its own, and reads its rows into structs.
func collect[T any](ctx context.Context, e *exam, sql string, args ...any) (rows []T, err error) {
	err = e.begin(ctx, func(tx pgx.Tx) error {
		result, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		rows, err = pgx.CollectRows(result, pgx.RowToStructByPos[T])
		return err
	})
	return rows, err
}

// one is collect for a query of one row.
func one[T any](ctx context.Context, e *exam, sql string, args ...any) (T, error) {
	rows, err := collect[T](ctx, e, sql, args...)
	if err != nil || len(rows) == 0 {
		var none T
		return none, err
	}
	return rows[0], nil
}
