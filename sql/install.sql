-- Install pgid with psql, without Go:
--
--     psql -X -q -f sql/install.sql "$DATABASE_URL"
--
-- All or nothing. Needs CREATE on the database, no superuser. A database that has
-- it already answers «schema "pgid" already exists» and stays as it is.

\set ON_ERROR_STOP on
BEGIN;
\ir schema.sql
\ir settings.sql
\ir layout.sql
\ir clock.sql
\ir shard.sql
\ir shard_life.sql
\ir next_id.sql
\ir next_ids.sql
\ir lease.sql
\ir configure.sql
\ir status.sql
\ir stats.sql
\ir grants.sql
COMMIT;
