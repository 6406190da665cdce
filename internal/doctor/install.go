package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nextid/postgres-ids/migrations"
	"github.com/nextid/postgres-ids/pgid"
)

// schema is what the schema pgid says of itself.
type schema struct {
	owner   string
	isOwner bool // this role has the owner's rights
	version int
	epoch   time.Time
	maxLead time.Duration
	maxWait time.Duration
}

const migrateUp = "pgid migrate up"

func (e *exam) checkInstalled(ctx context.Context) error {
	type row struct {
		Owner   string
		IsOwner bool
		Version bool
	}
	found, err := collect[row](ctx, e, `
		SELECT pg_get_userbyid(n.nspowner)::text, pg_has_role(n.nspowner, 'USAGE'),
		       EXISTS (SELECT FROM pg_proc AS p WHERE p.pronamespace = n.oid AND p.proname = 'version' AND p.pronargs = 0)
		  FROM pg_namespace AS n
		 WHERE n.nspname = 'pgid'`)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		e.add(Error, migrateUp, "pgid is not installed in this database")
		return errStop
	}
	e.schema.owner, e.schema.isOwner = found[0].Owner, found[0].IsOwner
	if !found[0].Version {
		e.add(Error, "DROP SCHEMA pgid CASCADE; -- if nothing in it is needed; then run «pgid migrate up»",
			"there is a schema pgid, but it does not say its version: another program's, or broken")
		return errStop
	}
	return e.readSettings(ctx)
}

func (e *exam) readSettings(ctx context.Context) error {
	type row struct {
		Version int
		Epoch   int64
		Lead    int64
		Wait    int64
	}
	s, err := one[row](ctx, e, `SELECT version, epoch_ms, max_lead_ms::bigint, max_wait_ms::bigint FROM pgid.settings()`)
	if err != nil {
		e.failed(err)
		if e.schema.isOwner {
			return errStop
		}
		// As after a restore without the grants: those can be examined all the same.
		e.check = "grants"
		if err := e.checkGrants(ctx); err != nil {
			e.failed(err)
		}
		return errStop
	}
	e.schema.version = s.Version
	e.schema.epoch = time.UnixMilli(s.Epoch).UTC()
	e.schema.maxLead = time.Duration(s.Lead) * time.Millisecond
	e.schema.maxWait = time.Duration(s.Wait) * time.Millisecond
	switch {
	case s.Version < pgid.SchemaVersion:
		e.add(Error, migrateUp, "the schema has version %d, this program knows %d: the rest was not examined", s.Version, pgid.SchemaVersion)
		return errStop
	case s.Version > pgid.SchemaVersion:
		e.add(Error, fmt.Sprintf("use a pgid of schema version %d, see «pgid --version»", s.Version),
			"the schema has version %d, this program knows %d only: the rest was not examined", s.Version, pgid.SchemaVersion)
		return errStop
	}
	e.ok("version %d, epoch %s, max_lead %d ms, max_wait %d ms", s.Version, e.schema.epoch.Format(time.RFC3339Nano), s.Lead, s.Wait)
	return nil
}

// checkRecord looks at what golang-migrate has written down. A database that was set up
// with sql/install.sql has no record, and needs none.
func (e *exam) checkRecord(ctx context.Context) error {
	tables, err := collect[struct{ Name string }](ctx, e, `
		SELECT format('%I.%I', n.nspname, c.relname)
		  FROM pg_class AS c
		  JOIN pg_namespace AS n ON n.oid = c.relnamespace
		 WHERE c.relname = $1::text
		   AND c.relkind = 'r'
		 ORDER BY 1`, migrations.Table)
	if err != nil {
		return err
	}
	if len(tables) == 0 {
		e.ok("no migration record: installed with sql/install.sql, or restored without it")
		return nil
	}
	if len(tables) > 1 {
		names := make([]string, len(tables))
		for i, t := range tables {
			names[i] = t.Name
		}
		e.add(Warning, "drop all but that of the role that migrates", "%d migration records: %s", len(tables), strings.Join(names, ", "))
	}
	for _, t := range tables {
		if err := e.checkRecordTable(ctx, t.Name); err != nil {
			return err
		}
	}
	return nil
}

func (e *exam) checkRecordTable(ctx context.Context, table string) error {
	type row struct {
		Version  int
		Dirty    bool
		UnderWay bool
	}
	records, err := collect[row](ctx, e, `
		SELECT r.version::integer, r.dirty, EXISTS (
		         SELECT FROM pg_locks AS l
		          WHERE l.locktype = 'advisory' AND l.classid = $1::bigint::oid AND l.objid = 4294967295 AND l.objsubid = 2 AND l.granted
		            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
		  FROM `+table+` AS r`, lockClass)
	if err != nil {
		return err
	}
	for _, r := range records {
		switch {
		case r.UnderWay:
			e.add(Info, "", "a migration is under way")
		case r.Dirty:
			e.add(Error, fmt.Sprintf("pgid migrate force %d", e.schema.version),
				"the migration record %s is dirty: a run towards version %d was interrupted, and the database has version %d",
				table, r.Version, e.schema.version)
		case r.Version != e.schema.version:
			e.add(Warning, fmt.Sprintf("pgid migrate force %d", e.schema.version),
				"the migration record %s says version %d, the schema itself %d", table, r.Version, e.schema.version)
		default:
			e.ok("%s says version %d", table, r.Version)
		}
	}
	return nil
}
