-- The schema, and who may look into it.
--
-- Everything that pgid owns stands in this schema. Any role may call the public
-- functions by name; what each role may execute is listed in grants.sql.

-- While the objects are created, nothing but PostgreSQL's own operators, types and
-- functions is in view: they mean these for ever, whatever stands in the installing
-- role's search_path. The end of grants.sql gives it back. All of it must run in one
-- transaction, to which both settings belong.
DO $$
BEGIN
  PERFORM pg_catalog.set_config('pgid.caller_path', pg_catalog.current_setting('search_path'), true);
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
END
$$;

CREATE SCHEMA pgid;

COMMENT ON SCHEMA pgid IS
  'Unique, time-ordered 64-bit IDs: 41 bits of milliseconds, 13 of logical shard, 10 of sequence';
