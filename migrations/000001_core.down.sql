-- pgid 1, undone: nothing of it stays. IDs already stored stay as they are.
--
-- Nothing is dropped with CASCADE: PostgreSQL refuses the whole step while anything
-- outside the schema needs a function, the table or a sequence in it, and says what.
-- Objects of one kind go in one statement, so that they may need one another.

DO $$
DECLARE
  caller_path CONSTANT text := pg_catalog.current_setting('search_path');
  functions   text;
  sequences   text;
BEGIN
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

  SELECT string_agg(oid::regprocedure::text, ', ')
    INTO functions
    FROM pg_proc
   WHERE pronamespace = 'pgid'::regnamespace;
  SELECT string_agg(oid::regclass::text, ', ')
    INTO sequences
    FROM pg_class
   WHERE relnamespace = 'pgid'::regnamespace
     AND relkind = 'S';

  DROP VIEW pgid.shard_status RESTRICT;
  EXECUTE format('DROP FUNCTION %s RESTRICT', functions);
  DROP TABLE pgid.shard RESTRICT;
  EXECUTE format('DROP SEQUENCE %s RESTRICT', sequences);
  DROP SCHEMA pgid RESTRICT;

  PERFORM pg_catalog.set_config('search_path', caller_path, true);
END
$$;
