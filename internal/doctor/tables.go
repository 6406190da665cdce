package doctor

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/nextid/postgres-ids/pgid"
)

// A column whose default, or whose type's, calls pgid.next_id.
type column struct {
	Table      uint32
	Number     int16
	Root       uint32 // of the partitions, or the table itself
	Schema     string
	Name       string
	Column     string
	Kind       string // of pg_class.relkind
	Type       string
	BaseType   string // of a domain, or the type itself
	Default    string
	Readable   bool
	HidesRows  bool // from this role, by row-level security
	Foreigners bool // of another session's temporary schema
}

func (c column) table() string  { return ident(c.Schema) + "." + ident(c.Name) }
func (c column) String() string { return c.table() + "." + ident(c.Column) }

// The default itself is left out where it is the table's: reading it takes a lock on that.
const readColumns = `
	WITH calls AS (
	  SELECT p.oid
	    FROM pg_proc AS p
	   WHERE p.pronamespace = 'pgid'::regnamespace
	     AND p.proname = 'next_id'
	), defaults AS (
	  SELECT d.adrelid AS relation, d.adnum AS number, '' AS expression
	    FROM pg_attrdef AS d
	   WHERE EXISTS (
	           SELECT FROM pg_depend AS p
	            WHERE p.classid = 'pg_attrdef'::regclass
	              AND p.objid = d.oid
	              AND p.refclassid = 'pg_proc'::regclass
	              AND p.refobjid IN (SELECT oid FROM calls))
	   UNION
	  SELECT a.attrelid, a.attnum, pg_get_expr(t.typdefaultbin, 0)
	    FROM pg_type AS t
	    JOIN pg_attribute AS a ON a.atttypid = t.oid AND NOT a.atthasdef
	   WHERE EXISTS (
	           SELECT FROM pg_depend AS p
	            WHERE p.classid = 'pg_type'::regclass
	              AND p.objid = t.oid
	              AND p.refclassid = 'pg_proc'::regclass
	              AND p.refobjid IN (SELECT oid FROM calls))
	)
	SELECT c.oid, a.attnum, coalesce(pg_partition_root(c.oid)::oid, c.oid), n.nspname::text, c.relname::text, a.attname::text, c.relkind::text,
	       format_type(a.atttypid, a.atttypmod), format_type(base.oid, NULL), d.expression,
	       has_schema_privilege(n.oid, 'USAGE') AND has_column_privilege(c.oid, a.attnum, 'SELECT'),
	       row_security_active(c.oid), pg_is_other_temp_schema(n.oid)
	  FROM defaults AS d
	  JOIN pg_class AS c ON c.oid = d.relation AND c.relkind IN ('r', 'p', 'f', 'v')
	  JOIN pg_namespace AS n ON n.oid = c.relnamespace
	  JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = d.number AND NOT a.attisdropped
	 CROSS JOIN LATERAL (
	         WITH RECURSIVE domain (oid, base) AS (
	           SELECT t.oid, t.typbasetype FROM pg_type AS t WHERE t.oid = a.atttypid
	            UNION ALL
	           SELECT t.oid, t.typbasetype FROM pg_type AS t JOIN domain ON t.oid = domain.base
	         )
	         SELECT oid FROM domain WHERE base = 0
	       ) AS base
	 ORDER BY n.nspname, c.relname, a.attnum`

// checkTables compares the tables that get their IDs by default with the shards that
// these come from.
func (e *exam) checkTables(ctx context.Context) error {
	if e.unread {
		return errUnread
	}
	columns, err := collect[column](ctx, e, readColumns)
	if err != nil {
		return err
	}
	before := len(e.findings)
	columns = slices.DeleteFunc(columns, func(c column) bool { return c.Foreigners })
	for i := range columns {
		if err := e.readDefault(ctx, &columns[i]); err != nil {
			return err
		}
	}
	for _, c := range columns {
		if c.Default == "" || c.Table != c.Root && slices.ContainsFunc(columns, func(root column) bool {
			return root.Table == c.Root && root.Column == c.Column && root.Default == c.Default
		}) {
			continue // a partition: its rows are the root's
		}
		if err := e.checkColumn(ctx, c); err != nil {
			return err
		}
	}
	if len(e.findings) == before {
		e.ok("%d columns take their IDs from pgid, and no shard is behind them", len(columns))
	}
	return nil
}

// readDefault completes a column. It leaves the default empty, and says so, where the
// table is locked.
func (e *exam) readDefault(ctx context.Context, c *column) error {
	if c.Default != "" {
		return nil
	}
	d, err := one[struct{ Expression string }](ctx, e, `
		SELECT pg_get_expr(d.adbin, d.adrelid)
		  FROM pg_attrdef AS d
		 WHERE d.adrelid = $1::oid
		   AND d.adnum = $2::smallint`, c.Table, c.Number)
	if isTimeout(err) {
		e.add(Warning, "examine again with a longer --timeout, or when the table is less busy", "%s could not be read within %s: not compared with its shard", c, e.timeout)
		return nil
	}
	c.Default = d.Expression
	return err
}

func (e *exam) checkColumn(ctx context.Context, c column) error {
	numbers, known := shardsOf(c.Default, e.named)
	comparable := e.checkType(c)
	if comparable {
		switch {
		case !known:
			e.add(Info, "", "%s has the default %s, whose shard is not a constant: only its newest ID was compared", c, c.Default)
		case len(numbers) == 0:
			e.add(Info, "", "%s draws from the shard that pgid.shard names, and no database or role is given one: only its newest ID was compared", c)
		}
		if err := e.compareLargest(ctx, c, numbers); err != nil {
			return err
		}
	}
	for _, n := range numbers {
		var newest *pgid.ID
		if comparable {
			var err error
			if newest, err = e.newest(ctx, c, n); err != nil {
				return err
			}
		}
		e.addNamed(n, fmt.Sprintf("the default of %s draws from it", c), fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s DROP DEFAULT;", c.table(), ident(c.Column)), newest)
		if newest != nil {
			if err := e.compareNewest(ctx, c, n, *newest); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkType reports whether the column's IDs can be compared.
func (e *exam) checkType(c column) bool {
	fix := fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s DROP DEFAULT, ALTER COLUMN %[2]s TYPE bigint USING %[2]s::bigint, ALTER COLUMN %[2]s SET DEFAULT %s;",
		c.table(), ident(c.Column), c.Default)
	if call := nextIDCall.FindString(c.Default); call != "" { // without a cast to the wrong type
		fix = fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s DROP DEFAULT, ALTER COLUMN %[2]s TYPE bigint USING %[2]s::bigint, ALTER COLUMN %[2]s SET DEFAULT %s;",
			c.table(), ident(c.Column), call)
	}
	switch {
	case c.BaseType != "bigint":
		e.add(Error, fix, "%s is of type %s: an ID is a bigint", c, c.Type)
	case c.Kind == "f", c.Kind == "v":
		e.add(Info, "", "%s is a column of a view or foreign table: not compared with its shard", c)
	case !c.Readable:
		e.add(Info, fmt.Sprintf("GRANT SELECT (%s) ON %s TO %s; -- and USAGE on its schema", ident(c.Column), c.table(), ident(e.server.Role)),
			"%s may not be read by the role %s: not compared with its shard", c, e.server.Role)
	case c.HidesRows:
		e.add(Info, "connect as a role with BYPASSRLS", "%s has row-level security, which hides rows from the role %s: not compared with its shard", c, e.server.Role)
	default:
		return true
	}
	return false
}

// compareLargest compares the largest ID of a column with its own shard, unless that is one
// of those that are compared anyway: rows may be of other shards than the default's.
func (e *exam) compareLargest(ctx context.Context, c column, numbers []int) error {
	largest, err := one[struct{ ID *int64 }](ctx, e, fmt.Sprintf("SELECT max(%s)::bigint FROM %s", ident(c.Column), c.table()))
	if isTimeout(err) {
		e.add(Warning, fmt.Sprintf("CREATE INDEX CONCURRENTLY ON %s (%s); -- or examine again with a longer --timeout", c.table(), ident(c.Column)),
			"%s could not be read within %s: its newest ID was not compared", c, e.timeout)
		return nil
	}
	if err != nil || largest.ID == nil || *largest.ID < 0 {
		return err
	}
	id := pgid.ID(*largest.ID)
	if n := int(id.Shard()); !slices.Contains(numbers, n) {
		return e.compareNewest(ctx, c, n, id)
	}
	return nil
}

// newest is the largest ID of a shard in a column, if it is larger than the shard's last
// as it was read before. That condition is what an index serves: rows that are newer are
// few, and of other shards.
func (e *exam) newest(ctx context.Context, c column, n int) (*pgid.ID, error) {
	last := int64(-1)
	if s := e.shard(n); s != nil && s.floor() >= 0 {
		last = int64(idOf(s.floor(), n))
	}
	name := ident(c.Column)
	newest, err := one[struct{ ID *int64 }](ctx, e, newestQuery(c.table(), name), last, int64(n))
	if isTimeout(err) {
		e.add(Warning, fmt.Sprintf("CREATE INDEX CONCURRENTLY ON %s (%s); -- or examine again with a longer --timeout", c.table(), name),
			"%s could not be read within %s: not compared with shard %d", c, e.timeout, n)
		return nil, nil
	}
	if newest.ID == nil || err != nil {
		return nil, err
	}
	id := pgid.ID(*newest.ID)
	return &id, nil
}

func newestQuery(table, column string) string {
	return fmt.Sprintf("SELECT max(%s)::bigint FROM %s WHERE %[1]s > $1::bigint AND (%[1]s >> 10) & 8191 = $2::bigint", column, table)
}

// compareNewest compares an ID of a column with its shard as it is now: what was read of
// the shard before may have been older than the table.
func (e *exam) compareNewest(ctx context.Context, c column, n int, newest pgid.ID) error {
	if !e.exists(n) {
		return nil
	}
	if behind, err := e.isBehind(ctx, n, tickOf(newest)); err != nil || !behind {
		return err
	}
	e.add(Error, fmt.Sprintf("SELECT pgid.advance_shard(%d, %d);", n, newest),
		"%s holds the ID %d, of %s, which is newer than all that shard %d remembers: IDs can repeat", c, newest,
		e.timeOf(tickOf(newest)).Format("2006-01-02T15:04:05.000Z07:00"), n)
	return nil
}

func idOf(tick int64, n int) pgid.ID { return pgid.ID(tick>>10<<23 | int64(n)<<10 | tick&1023) }
func tickOf(id pgid.ID) int64        { return int64(id)>>23<<10 | int64(id)&1023 }

var nextIDCall = regexp.MustCompile(`pgid\.next_id\((?:shard => )?(?:\(?'?(-?[0-9]+)'?\)?(?:::(?:integer|smallint|bigint))*)?\)`)

// shardsOf are the shards that a default draws from; known is false where they are no
// constants.
func shardsOf(expression string, named []int) (numbers []int, known bool) {
	for _, call := range nextIDCall.FindAllStringSubmatch(expression, -1) {
		if call[1] == "" {
			numbers = append(numbers, named...)
			continue
		}
		n, err := strconv.Atoi(call[1])
		if err != nil {
			return nil, false
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), nextIDCall.MatchString(expression)
}
