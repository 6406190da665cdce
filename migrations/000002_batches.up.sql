-- pgid 2: ranges of IDs (next_ids, reserve), configure, and a cheaper reading of the clock.
-- Once released, this file does not change any more. The functions as they stand are in sql/.

-- Nothing but PostgreSQL's own names is in view while objects are made, as in step 1.
DO $$
BEGIN
  PERFORM pg_catalog.set_config('pgid.caller_path', pg_catalog.current_setting('search_path'), true);
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
END
$$;

-- The version of these functions: the number of the migration that brought them.
CREATE OR REPLACE FUNCTION pgid.version()
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 2;

-- The ID of a tick: its milliseconds move 13 bits up, which is to add them 8191 times,
-- and the shard fills the gap. Cost: inlined, five operations; with shifts it is seven.
CREATE OR REPLACE FUNCTION pgid.compose(tick bigint, shard integer)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN tick + (tick & -1024) * 8191 + shard * 1024;

-- The server's clock, now: not that of the start of the transaction.
CREATE FUNCTION pgid.clock()
RETURNS timestamptz
LANGUAGE sql VOLATILE
RETURN clock_timestamp();

-- The same in milliseconds since the epoch, floored. Negative before the epoch.
--
-- tstzrange_subdiff, which PostgreSQL has for its range types, is the cheapest way to
-- make a number of a timestamp: the difference of two in seconds, as a double.
-- Exact to the millisecond boundary: the double is good to 0.24 us until 2106; times
-- a million, the cast rounds it to the microsecond that the clock showed, and the
-- division is between integers.
CREATE OR REPLACE FUNCTION pgid.now_ms()
RETURNS bigint
LANGUAGE sql VOLATILE
RETURN (tstzrange_subdiff(pgid.clock(), timestamptz '1970-01-01 00:00:00+00') * 1000000)::bigint / 1000
     - pgid.epoch_ms();

-- The last millisecond to issue IDs in: 2^40 - 1.
CREATE FUNCTION pgid.last_ms()
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 1099511627775;

-- Does the law refuse a tick, drawn or not yet, by this reading of the clock?
CREATE FUNCTION pgid.is_refused(tick bigint, now_ms bigint)
RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN now_ms > pgid.last_ms()
    OR tick >> 10 > pgid.last_ms()
    OR (tick >> 10) - now_ms > pgid.max_lead_ms()::bigint + pgid.max_wait_ms();

-- What the lead of a tick that is not behind the clock asks for: nothing, a wait, or
-- a refusal. The shard's lock is not held here.
-- Errors: ID004 time exhausted, ID001 clock behind the shard.
CREATE FUNCTION pgid.wait_or_refuse(shard integer, tick bigint, now_ms bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  lead CONSTANT bigint := (tick >> 10) - now_ms;
BEGIN
  IF now_ms > pgid.last_ms() OR tick >> 10 > pgid.last_ms() THEN
    RAISE EXCEPTION 'the time of shard % is exhausted: IDs end at %', shard,
        to_timestamp((pgid.epoch_ms() + pgid.last_ms())::double precision / 1000)
      USING ERRCODE = 'ID004',
            HINT    = CASE
                        WHEN now_ms > pgid.last_ms()
                        THEN 'If the server''s clock is wrong, correct it: the shard is none the worse.'
                        ELSE 'The shard was created past an ID of the end of time. Use another shard.'
                      END;
  END IF;
  IF pgid.is_refused(tick, now_ms) THEN
    RAISE EXCEPTION
        'the clock is behind shard %: its next ID is % ms ahead, more than the % it may be and the % waited for',
        shard, lead, pgid.max_lead_ms(), pgid.max_wait_ms()
      USING ERRCODE = 'ID001',
            HINT    = 'If the server''s clock is wrong, correct it; else wait until it has caught up.'
                      ' Nothing was repeated.';
  END IF;
  IF lead > pgid.max_lead_ms() THEN
    PERFORM pg_sleep((lead - pgid.max_lead_ms()) / 1000.0);
  END IF;
END
$$;

-- The slow path: whatever next_id could not issue at once. It is given the tick
-- that next_id drew, and the base from before that draw.
--
-- Errors: 22004 null shard, 22023 shard out of range, ID001 clock behind the shard,
-- ID002 no such shard, ID003 retired, ID004 time exhausted, ID005 busy.
--
-- The lock belongs to the transaction, taken in a block that rolls back on purpose
-- once the work is done. Rolling back is what releases it, on the good way out and
-- on every other (cancel, time-out, termination) alike; sequences are not
-- transactional and keep what the block did to them. (Its code must not end in 000:
-- PL/pgSQL would take it for the whole class, and swallow ID005.)
CREATE OR REPLACE FUNCTION pgid.next_id_slow(shard integer, base bigint, tick bigint)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  base_seq    CONSTANT regclass := to_regclass('pgid.base_' || shard);
  counter_seq CONSTANT regclass := to_regclass('pgid.counter_' || shard);
  now_ms      bigint;
  tries       integer := 0;
BEGIN
  IF base IS NULL THEN -- the lookup does not show the shard, or its base was never set
    PERFORM pgid.require_shard(shard);
  END IF;

  BEGIN
    LOOP
      -- The tick is ours if base still reads as it did before the draw.
      IF base = coalesce(pg_sequence_last_value(base_seq), -1) THEN
        now_ms := pgid.now_ms();
        EXIT WHEN tick >> 10 >= now_ms OR now_ms > pgid.last_ms();

        -- Behind the clock: catch up. Nobody else moves base while we hold the lock.
        IF pg_try_advisory_xact_lock(pgid.lock_class(), shard) THEN
          base   := coalesce(pg_sequence_last_value(base_seq), -1);
          tick   := base + nextval(counter_seq);
          now_ms := pgid.now_ms();
          IF tick >> 10 < now_ms AND now_ms <= pgid.last_ms() THEN
            base := setval(base_seq, base + (now_ms << 10) - tick - 1);
            tick := base + nextval(counter_seq);
          END IF;
          RAISE SQLSTATE 'IDEND';
        END IF;

        -- Another session is at it, and takes microseconds: look again before sleeping.
        tries := tries + 1;
        IF tries > 3 THEN
          PERFORM pgid.refuse_if_busy(shard, tries);
          PERFORM pg_sleep(0.0001); -- in practice a millisecond
        END IF;
      END IF;

      base := coalesce(pg_sequence_last_value(base_seq), -1);
      tick := base + nextval(counter_seq);
    END LOOP;
  EXCEPTION
    WHEN SQLSTATE 'IDEND' THEN NULL;
  END;

  -- The tick is ours, and not behind the clock as it was read for it.
  PERFORM pgid.wait_or_refuse(shard, tick, now_ms);
  RETURN pgid.compose(tick, shard);
END
$$;

-- The next ID of a shard: larger than every ID that the shard has ever issued.
--
-- Its time is the server's clock, or ahead of it by at most max_lead_ms. Call it
-- from a column default: a role with INSERT on the table needs no other grant.
-- Cost: two readings of one sequence, a draw from another, one of the clock; no
-- lock. Errors: as next_id_slow, which also does the waiting.
--
-- Three statements, as few as can be: each takes a snapshot of its own.
--
-- The functions called here are inlined, and qualified: nothing in this body is
-- looked up along the caller's search_path.
CREATE OR REPLACE FUNCTION pgid.next_id(shard integer)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
DECLARE
  base bigint := pgid.read_base(shard);
  tick bigint := pgid.draw(base, shard);
BEGIN
  RETURN CASE
    WHEN pgid.is_issuable(tick, base, shard) THEN pgid.compose(tick, shard)
    ELSE pgid.next_id_slow(shard, base, tick)
  END;
END
$$;

-- Reserve `count` consecutive ticks, and return the first.
-- Errors: 22004 null shard, 22023 shard or count out of range, ID001 to ID005 as next_id;
-- a refused call draws nothing.
-- Cost: 20 to 30 calls of next_id, whatever the count; it may wait for the clock.
CREATE FUNCTION pgid.reserve_ticks(shard integer, count integer)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  base_seq    CONSTANT regclass := to_regclass('pgid.base_' || shard);
  counter_seq CONSTANT regclass := to_regclass('pgid.counter_' || shard);
  base        bigint;
  before      bigint; -- draws by anybody, before we had the lock
  drawn       bigint; -- and before we raised base
  now_ms      bigint;
  lag         bigint; -- ticks between the last one drawn and our first
  first       bigint;
  last        bigint;
  meanwhile   bigint; -- draws by others while we raised base
  pad         bigint;
  tries       integer := 0;
BEGIN
  PERFORM pgid.require_shard_number(shard);
  IF (count BETWEEN 1 AND pgid.max_lead_ms()::bigint * 1024) IS NOT TRUE THEN
    PERFORM pgid.refuse_count(count);
  END IF;
  IF pg_sequence_last_value(pgid.base_sequence(shard)) IS NULL THEN
    PERFORM pgid.require_shard(shard); -- the lookup does not show it, or its base was never set
  END IF;

  BEGIN
    LOOP
      before := coalesce(pg_sequence_last_value(counter_seq), 0);
      EXIT WHEN pg_try_advisory_xact_lock(pgid.lock_class(), shard);
      tries := tries + 1;
      PERFORM pgid.refuse_if_busy(shard, tries);
      PERFORM pg_sleep(0.0001); -- in practice a millisecond
    END LOOP;

    -- Alone, there is nobody to leave room for; in company, for some times more draws
    -- than were made while we took the lock. Is that too little, leave more next time.
    pad := 4 * (coalesce(pg_sequence_last_value(counter_seq), 0) - before);
    LOOP
      base   := coalesce(pg_sequence_last_value(base_seq), -1);
      drawn  := coalesce(pg_sequence_last_value(counter_seq), 0);
      now_ms := pgid.now_ms();
      lag    := greatest((now_ms << 10) - (base + drawn + 1), 0) + pad;
      first  := base + drawn + 1 + lag;
      last   := first + count - 1;
      EXIT WHEN pgid.is_refused(last, now_ms);

      PERFORM setval(base_seq, base + lag + count);
      meanwhile := coalesce(pg_sequence_last_value(counter_seq), 0) - drawn;
      EXIT WHEN meanwhile <= lag;
      pad := 2 * pad + 4 * meanwhile;
    END LOOP;
    RAISE SQLSTATE 'IDEND'; -- the rollback releases the lock: see next_id_slow
  EXCEPTION
    WHEN SQLSTATE 'IDEND' THEN NULL;
  END;

  PERFORM pgid.wait_or_refuse(shard, last, now_ms);
  RETURN first;
END
$$;

-- Errors: always 22023.
CREATE FUNCTION pgid.refuse_count(count integer)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RAISE EXCEPTION 'count % is out of range', coalesce(count::text, 'null')
    USING ERRCODE = '22023',
          HINT    = format('A call takes 1 to %s IDs, what may lead the clock at once: 1024 a ms for %s ms.',
                           pgid.max_lead_ms()::bigint * 1024, pgid.max_lead_ms());
END
$$;

-- The next `count` IDs of a shard, ascending, larger than every ID before them: as
-- in  INSERT INTO photo (id, title) SELECT pgid.next_ids(5, 1000), ...
-- Use it in the target list, where rows come one by one; in FROM they are stored first.
-- Cost: one reservation, then about a nextval a row. Errors: as reserve_ticks.
CREATE FUNCTION pgid.next_ids(shard integer, count integer)
RETURNS SETOF bigint
LANGUAGE sql VOLATILE SECURITY DEFINER
BEGIN ATOMIC
  SELECT pgid.compose(tick, shard)
    FROM (SELECT pgid.reserve_ticks(shard, count) AS first) AS range
   CROSS JOIN LATERAL generate_series(range.first, range.first + count - 1) AS tick;
END;

-- The same range as its two end IDs, for a client that expands it: from first to
-- last, tick by tick (after seq 1023 comes seq 0 of the next millisecond).
-- Errors: as reserve_ticks.
CREATE FUNCTION pgid.reserve(shard integer, count integer, OUT first bigint, OUT last bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
DECLARE
  tick CONSTANT bigint := pgid.reserve_ticks(shard, count);
BEGIN
  first := pgid.compose(tick, shard);
  last  := pgid.compose(tick OPERATOR(pg_catalog.+) count OPERATOR(pg_catalog.-) 1, shard);
END
$$;

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
  END LOOP;

  SELECT s.max_lead_ms, s.max_wait_ms, s.epoch_ms
    INTO max_lead_ms, max_wait_ms, epoch_ms
    FROM pgid.settings() AS s;
END
$$;

COMMENT ON FUNCTION pgid.next_ids(integer, integer) IS 'The next IDs of a shard, ascending, as many as asked for';
COMMENT ON FUNCTION pgid.reserve(integer, integer)  IS 'The first and the last of the next IDs of a shard';
COMMENT ON FUNCTION pgid.configure(integer, integer, bigint) IS
  'Change max_lead and max_wait, and the epoch while no shard exists';

-- The new functions are nobody's but the owner's, whatever default privileges have
-- given; then two of them are everybody's.
DO $$
DECLARE
  added   regprocedure;
  grantee text;
BEGIN
  FOREACH added IN ARRAY ARRAY[
    'pgid.clock()',
    'pgid.last_ms()',
    'pgid.is_refused(bigint, bigint)',
    'pgid.wait_or_refuse(integer, bigint, bigint)',
    'pgid.reserve_ticks(integer, integer)',
    'pgid.refuse_count(integer)',
    'pgid.next_ids(integer, integer)',
    'pgid.reserve(integer, integer)',
    'pgid.configure(integer, integer, bigint)'
  ]::regprocedure[] LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', added);
    FOR grantee IN
      SELECT quote_ident(r.rolname)
        FROM pg_proc AS p
       CROSS JOIN aclexplode(p.proacl) AS acl
        JOIN pg_roles AS r ON r.oid = acl.grantee AND r.oid <> p.proowner
       WHERE p.oid = added
    LOOP
      EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %s', added, grantee);
    END LOOP;
  END LOOP;
END
$$;

GRANT EXECUTE ON FUNCTION pgid.next_ids(integer, integer), pgid.reserve(integer, integer) TO PUBLIC;

-- The search_path that was set aside.
DO $$
BEGIN
  PERFORM pg_catalog.set_config('search_path', pg_catalog.current_setting('pgid.caller_path'), true);
END
$$;
