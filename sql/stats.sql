-- What an operator wants to know afterwards. Counted in sequences: a call that is
-- rolled back has counted all the same.

CREATE SEQUENCE pgid.count_waits;    -- calls that slept for the clock
CREATE SEQUENCE pgid.count_refusals; -- ID001 and ID004
CREATE SEQUENCE pgid.count_busy;     -- ID005
CREATE SEQUENCE pgid.count_steps;    -- times that the clock was seen to go back

-- The latest reading of the clock that was seen, in milliseconds since the epoch:
-- whatever reads less than that has gone back. The slow path sets it when it is more
-- than 64 ms old, some 16 times a second, not in every call.
CREATE SEQUENCE pgid.clock_high MINVALUE -9223372036854775808;

-- Keep clock_high up with a reading, and return it.
CREATE FUNCTION pgid.keep_high(now_ms bigint)
RETURNS bigint
LANGUAGE sql VOLATILE
RETURN CASE
  WHEN now_ms <= pg_sequence_last_value('pgid.clock_high') + 64
  THEN pg_sequence_last_value('pgid.clock_high')
  ELSE setval('pgid.clock_high', now_ms)
END;

-- Called when a reading was below clock_high. That may be older than clock_high; so the
-- clock is read once more, after it. If that is below, too, the clock went back: count
-- it, write a line to the server's log, and start from there.
CREATE FUNCTION pgid.note_step()
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  high   CONSTANT bigint := pg_sequence_last_value('pgid.clock_high');
  now_ms CONSTANT bigint := pgid.now_ms();
BEGIN
  IF now_ms < high THEN
    PERFORM nextval('pgid.count_steps');
    RAISE LOG 'pgid: the clock went back by at least % ms', high - now_ms
      USING HINT = 'Nothing is repeated. Calls wait, or are refused (ID001), where a shard is ahead of the clock.';
    PERFORM setval('pgid.clock_high', now_ms);
  END IF;
END
$$;

-- One row: since pgid was installed, how many calls waited for the clock, were refused
-- by it, and gave up on a shard's lock; how often the clock was seen to go back, and
-- the latest that it was seen to show since then.
CREATE VIEW pgid.stats AS
SELECT pgid.read_sequence('pgid.count_waits', 0)    AS waits,
       pgid.read_sequence('pgid.count_refusals', 0) AS refusals,
       pgid.read_sequence('pgid.count_busy', 0)     AS busy,
       pgid.read_sequence('pgid.count_steps', 0)    AS clock_steps,
       to_timestamp((pg_sequence_last_value('pgid.clock_high') + pgid.epoch_ms())::double precision / 1000) AS clock_high;

COMMENT ON VIEW pgid.stats IS
  'Waits, refusals and busy shards counted, and how often the clock went back';
