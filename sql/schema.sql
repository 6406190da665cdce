-- The schema, and who may look into it.
--
-- Everything that pgid owns stands in this schema. Any role may call the public
-- functions by name; what each role may execute is listed in grants.sql.

-- Until the end of this transaction, nothing but PostgreSQL's own operators, types
-- and functions is in view: what is created below means them for ever, whatever
-- stands in the installing role's search_path.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

CREATE SCHEMA pgid;

COMMENT ON SCHEMA pgid IS
  'Unique, time-ordered 64-bit IDs: 41 bits of milliseconds, 13 of logical shard, 10 of sequence';
