package faults

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/nextid/postgres-ids/internal/display"
	"github.com/nextid/postgres-ids/internal/pgtest"
)

// A soaker has a server under load, and injects faults into it.
type soaker struct {
	server *pgtest.Server
	db     *pgtest.Database
	ledger *Ledger
	fleet  *fleet

	clients  atomic.Pointer[pgxpool.Pool] // of the allocators
	operator *pgxpool.Pool                // who injects: none of the victims
	injected []injection
	extra    []extraShard // created, not yet retired
	next     int          // the next shard to create
}

// An injection is when a fault began.
type injection struct {
	fault string
	at    int64
}

func newSoaker(t *testing.T, server *pgtest.Server, db *pgtest.Database) *soaker {
	ledger := NewLedger()
	s := &soaker{server: server, db: db, ledger: ledger, next: 200}
	s.fleet = newFleet(t.Context(), patient(db.URL), ledger.Book)
	s.connect(t)
	t.Cleanup(func() {
		s.clients.Load().Close()
		s.operator.Close()
	})
	return s
}

// connect makes the pools anew, for the server as it is now.
func (s *soaker) connect(t *testing.T) {
	t.Helper()
	url := s.server.DatabaseURL(s.db)
	s.fleet.moved(patient(url))
	clients, err := pgxpool.New(context.Background(), patient(url))
	if err != nil {
		t.Fatal(err)
	}
	if old := s.clients.Swap(clients); old != nil {
		go old.Close() // waits for who uses it
		s.operator.Close()
	}
	if s.operator, err = pgxpool.New(context.Background(), url+"&application_name=tormentor"); err != nil {
		t.Fatal(err)
	}
}

// QueryRow makes the soaker a pgid.Querier that outlives the server.
func (s *soaker) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return s.clients.Load().QueryRow(ctx, sql, args...)
}

const leaseSource = "lease"

// addSources starts clients of every source. A further source is a further step.
func (s *soaker) addSources(shards []int) {
	for i := range 2 {
		for name, step := range map[string]step{
			"next_id":              single(shards, Strict),
			"next_id, 200 at once": bulk(shards, 200, Strict),
			"next_id as a default": insert(shards, 10),
			"next_ids":             nextIDs(shards, 500),
			"reserve":              reserve(shards),
			leaseSource:            leased(childPool),
		} {
			s.fleet.add(fmt.Sprintf("%s #%d", name, i), paced(time.Millisecond, step))
		}
	}
	if err := addAllocators(s.fleet, s, shards); err != nil {
		panic(err) // the configuration is constant
	}
}

// inject injects a fault, and gives the clients a moment to come back.
func (s *soaker) inject(t *testing.T, f fault, random *rand.Rand) {
	t.Helper()
	s.injected = append(s.injected, injection{f.name, s.ledger.Now()})
	f.inject(t, s, random)
	time.Sleep(time.Duration(50+random.IntN(200)) * time.Millisecond)
}

// settle waits for the load to run undisturbed for a moment.
func (s *soaker) settle(t *testing.T) {
	t.Helper()
	s.server.SetClock(t, 0)
	time.Sleep(time.Second)
	s.injected = append(s.injected, injection{"", s.ledger.Now()})
}

// A faultRow is what became of a kind of fault.
type faultRow struct {
	fault string
	times int
	worst time.Duration // without an ID, from its beginning to the next fault
}

func (s *soaker) rows() []faultRow {
	line := s.ledger.Timeline()
	rows := map[string]faultRow{}
	for i, f := range s.injected[:len(s.injected)-1] {
		row := rows[f.fault]
		rows[f.fault] = faultRow{f.fault, row.times + 1, max(row.worst, line.Gap(f.at, s.injected[i+1].at))}
	}
	var sorted []faultRow
	for _, f := range soakFaults {
		if row, ok := rows[f.name]; ok {
			sorted = append(sorted, row)
		}
	}
	return sorted
}

// tables are the faults, and the IDs of each source with their total.
func (s *soaker) tables() (faults, sources table.Writer, total int) {
	faults = display.NewTable("Fault", "Times", "No ID from the database for")
	for _, row := range s.rows() {
		faults.AppendRow(table.Row{row.fault, row.times, row.worst.Round(time.Millisecond)})
	}
	sources = display.NewTable("Source", "IDs")
	sources.Style().Format.Footer = text.FormatDefault
	counts := s.ledger.Sources()
	granted := counts[leaseSource] // windows, of which a holder may use a part
	delete(counts, leaseSource)
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		sources.AppendRow(table.Row{name, display.Count(counts[name])})
		total += counts[name]
	}
	sources.AppendFooter(table.Row{"Total, none twice", display.Count(total)})
	sources.AppendFooter(table.Row{"Granted in windows of leases, none twice", display.Count(granted)})
	return faults, sources, total
}
