-- Changing the settings of this installation: see settings.sql.

-- Change max_lead and max_wait, and the epoch while no shard exists. NULL leaves a
-- setting as it is; the result is what they are now. Sessions under way follow with
-- their next statement. Dump, restore and later migrations keep the settings.
-- Errors: 22023 out of range, 55000 epoch changed while there are shards.
--
-- Keep max_lead as short as bursts allow: an ID's time may be ahead of the clock by
-- it. A max_wait of 0 refuses where others would wait.
CREATE FUNCTION pgid.configure(
  INOUT max_lead_ms integer DEFAULT NULL,
  INOUT max_wait_ms integer DEFAULT NULL,
  INOUT epoch_ms    bigint  DEFAULT NULL
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  unix_ms CONSTANT bigint := pgid.now_ms() + pgid.epoch_ms();
  change  record;
BEGIN
  LOCK TABLE pgid.shard IN SHARE ROW EXCLUSIVE MODE; -- no shard is created meanwhile

  IF max_lead_ms NOT BETWEEN 1 AND 3600000 THEN
    RAISE EXCEPTION 'max_lead_ms % is out of range', max_lead_ms
      USING ERRCODE = '22023', HINT = 'It is a number from 1 to 3600000: an hour.';
  END IF;
  IF max_wait_ms NOT BETWEEN 0 AND 3600000 THEN
    RAISE EXCEPTION 'max_wait_ms % is out of range', max_wait_ms
      USING ERRCODE = '22023', HINT = 'It is a number from 0 to 3600000: an hour.';
  END IF;
  IF epoch_ms NOT BETWEEN unix_ms - pgid.last_ms() AND unix_ms THEN
    RAISE EXCEPTION 'epoch_ms % is out of range', epoch_ms
      USING ERRCODE = '22023',
            HINT    = format('It is a time in Unix milliseconds, not in the future, and at most 34.8 years ago: %s to %s.',
                             unix_ms - pgid.last_ms(), unix_ms);
  END IF;
  IF epoch_ms <> pgid.epoch_ms() AND EXISTS (
    SELECT FROM generate_series(0, 8191) AS n WHERE to_regclass('pgid.base_' || n) IS NOT NULL
  ) THEN
    RAISE EXCEPTION 'the epoch cannot change while there are shards'
      USING ERRCODE = '55000',
            HINT    = format('Their IDs count from %s. An epoch of your own is set before the first shard is created.',
                             pgid.epoch_ms());
  END IF;

  FOR change IN
    SELECT s.name, s.type, s.value
      FROM (VALUES ('max_lead_ms', 'int4', max_lead_ms::bigint, pgid.max_lead_ms()::bigint),
                   ('max_wait_ms', 'int4', max_wait_ms::bigint, pgid.max_wait_ms()::bigint),
                   ('epoch_ms',    'int8', epoch_ms,            pgid.epoch_ms())
           ) AS s (name, type, value, present)
     WHERE s.value <> s.present
  LOOP
    EXECUTE format('CREATE OR REPLACE FUNCTION pgid.%I() RETURNS %I LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN %s',
                   change.name, change.type, change.value);
    -- A plan that has the setting folded in does not remember where it came from. This
    -- grant gives the owner nothing new, but touches the schema: every session plans anew.
    EXECUTE format('GRANT USAGE ON SCHEMA pgid TO %I', current_user);
    IF change.name = 'epoch_ms' THEN
      PERFORM setval('pgid.clock_high', unix_ms - epoch_ms); -- readings count from there now
    END IF;
  END LOOP;

  SELECT s.max_lead_ms, s.max_wait_ms, s.epoch_ms
    INTO max_lead_ms, max_wait_ms, epoch_ms
    FROM pgid.settings() AS s;
END
$$;

COMMENT ON FUNCTION pgid.configure(integer, integer, bigint) IS
  'Change max_lead and max_wait, and the epoch while no shard exists';
