package pgtest

import "testing"

// Catalog describes every object of the schema pgid, a line each: all that an
// installation consists of, but for what its shards have drawn.
func Catalog(t testing.TB, db *Database) []string {
	t.Helper()
	return Query[[]string](t, db, catalog)
}

const catalog = `
SELECT coalesce(array_agg(line ORDER BY line), '{}') FROM (
  SELECT 'function ' || oid::regprocedure || ' ' || pg_get_functiondef(oid) || ' ' || coalesce(proacl::text, '')
         || ' ' || coalesce(obj_description(oid, 'pg_proc'), '')
    FROM pg_proc WHERE pronamespace = 'pgid'::regnamespace
  UNION ALL
  SELECT 'relation ' || c.relname || ' ' || c.relkind::text || ' ' || coalesce(c.relacl::text, '') || ' ' || coalesce(obj_description(c.oid, 'pg_class'), '')
         || CASE c.relkind WHEN 'v' THEN pg_get_viewdef(c.oid) ELSE '' END
    FROM pg_class AS c WHERE relnamespace = 'pgid'::regnamespace
  UNION ALL
  SELECT 'column ' || attrelid::regclass || '.' || attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull
         || ' ' || coalesce(pg_get_expr(adbin, adrelid), '')
    FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
   WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'pgid'::regnamespace) AND attnum > 0 AND NOT attisdropped
  UNION ALL
  SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
    FROM pg_constraint WHERE connamespace = 'pgid'::regnamespace
  UNION ALL
  SELECT 'sequence ' || (to_jsonb(s) - 'last_value')::text FROM pg_sequences AS s WHERE schemaname = 'pgid'
  UNION ALL
  SELECT 'schema ' || nspacl::text || ' ' || coalesce(obj_description(oid, 'pg_namespace'), '') FROM pg_namespace WHERE nspname = 'pgid'
) AS objects(line)`
