-- The schema, and who may look into it.
--
-- Everything that pgid owns stands in this schema. Any role may call the public
-- functions by name; what each role may execute is listed in grants.sql.

CREATE SCHEMA pgid;

COMMENT ON SCHEMA pgid IS
  'Unique, time-ordered 64-bit IDs: 41 bits of milliseconds, 13 of logical shard, 10 of sequence';

GRANT USAGE ON SCHEMA pgid TO PUBLIC;
