-- pgid 3, undone: the functions of pgid 2 again. Shards, and settings that were changed, stay as they are;
-- so does all that leases were granted, and nothing of it comes again. A retired shard goes on to refuse, as ID004.

-- Nothing but PostgreSQL's own names is in view while objects are made, as in step 1.
DO $$
BEGIN
  PERFORM pg_catalog.set_config('pgid.caller_path', pg_catalog.current_setting('search_path'), true);
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
END
$$;

-- What is made here has to belong to the schema's owner: the functions run with the owner's rights, and what
-- another role has made they may not use. No superuser either may be that other role.
DO $$
DECLARE
  owner CONSTANT name := (SELECT pg_get_userbyid(n.nspowner) FROM pg_namespace AS n WHERE n.nspname = 'pgid');
BEGIN
  IF owner <> current_user THEN
    RAISE EXCEPTION 'the schema pgid belongs to %, not to %', owner, current_user
      USING ERRCODE = '42501',
            HINT    = format('Migrate as its owner: connect as %1$I, or SET ROLE %1$I.', owner);
  END IF;
END
$$;

DROP VIEW pgid.shard_status;
DROP VIEW pgid.lease_status;
DROP VIEW pgid.stats;
DROP TABLE pgid.lease;

-- The version of these functions: the number of the migration that brought them.
CREATE OR REPLACE FUNCTION pgid.version()
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 2;

-- A shard's last tick as it stands, NULL if it has drawn none. By name: this also
-- reads shards that the lookup no longer shows.
CREATE OR REPLACE FUNCTION pgid.last_tick(shard integer)
RETURNS bigint
LANGUAGE sql VOLATILE
RETURN coalesce(pg_sequence_last_value(to_regclass('pgid.base_' || shard)), -1)
     + pg_sequence_last_value(to_regclass('pgid.counter_' || shard));

-- Refuse a shard that cannot issue IDs.
-- Errors: 22004 null, 22023 out of range, ID003 retired, ID002 not created.
--
-- Whether it exists is asked of the catalog, not of the table: a transaction whose
-- snapshot is older than the shard may use it all the same.
CREATE OR REPLACE FUNCTION pgid.require_shard(shard integer)
RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM pgid.require_shard_number(shard);
  IF EXISTS (
    SELECT FROM pgid.shard AS s
     WHERE s.shard = require_shard.shard
       AND s.retired IS NOT NULL
  ) THEN
    RAISE EXCEPTION 'shard % is retired', shard
      USING ERRCODE = 'ID003',
            HINT    = 'It issues no more IDs. Use another shard of this database, or the one that took its place.';
  END IF;
  IF to_regclass('pgid.base_' || shard) IS NULL THEN
    RAISE EXCEPTION 'shard % does not exist in this database', shard
      USING ERRCODE = 'ID002',
            HINT    = format('Create it as the owner of the schema pgid: SELECT pgid.create_shard(%s);', shard);
  END IF;
END
$$;

-- Redefine the lookup to show the shards that exist and are not retired.
-- The caller holds the lock on pgid.shard. Cost: 20 ms, and 0.04 ms a shard.
--
-- The two arrays are literals, with the first and the last shard as their bounds:
-- a new session reads 8,192 sequences in 2 ms, where an ARRAY[...] of as many
-- expressions takes 20. But PostgreSQL does not see which sequences a literal
-- names, and pg_dump would write the functions before the sequences. So
-- sequences() names them in a form that it does see, and the other two refer to
-- it in a branch that the planner removes.
CREATE OR REPLACE FUNCTION pgid.refresh_lookup()
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  shards integer[];
  kind   text;
  slots  text[];
BEGIN
  -- Asked of the catalog as it is now, whatever this transaction's snapshot shows.
  SELECT array_agg(n ORDER BY n)
    INTO shards
    FROM generate_series(0, 8191) AS n
   WHERE to_regclass('pgid.base_' || n) IS NOT NULL
     AND NOT EXISTS (SELECT FROM pgid.shard AS s WHERE s.shard = n AND s.retired IS NOT NULL);

  EXECUTE format(
    'CREATE OR REPLACE FUNCTION pgid.sequences() RETURNS regclass[] LANGUAGE sql IMMUTABLE'
    ' RETURN ARRAY[''pgid.base_none''::regclass, ''pgid.counter_none''::regclass%s]',
    (SELECT string_agg(
              format(', %L::regclass, %L::regclass', 'pgid.base_' || n, 'pgid.counter_' || n),
              '' ORDER BY n)
       FROM unnest(shards) AS n));

  FOREACH kind IN ARRAY ARRAY['base', 'counter'] LOOP
    SELECT array_agg(format('pgid.%s_%s', kind, coalesce(existing.n::text, 'none')) ORDER BY slot.n)
      INTO slots
      FROM generate_series(shards[1], shards[cardinality(shards)]) AS slot(n)
      LEFT JOIN unnest(shards) AS existing(n) ON existing.n = slot.n;

    EXECUTE format(
      'CREATE OR REPLACE FUNCTION pgid.%s_sequence(shard integer) RETURNS regclass LANGUAGE sql IMMUTABLE'
      ' RETURN CASE WHEN true THEN (%L::regclass[])[shard] ELSE (pgid.sequences())[1] END',
      kind, format('[%s:%s]=%s', shards[1], shards[cardinality(shards)], slots));
  END LOOP;
END
$$;

-- Refuse a shard whose lock stayed taken through many tries, of about a millisecond
-- each. Whoever has it for its purpose has it for microseconds.
-- Errors: ID005 after 5,000 tries.
CREATE OR REPLACE FUNCTION pgid.refuse_if_busy(shard integer, tries integer)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF tries > 5000 THEN
    RAISE EXCEPTION 'shard % is busy: its lock stayed taken through % tries', shard, tries - 1
      USING ERRCODE = 'ID005',
            HINT    = format('See who holds it: SELECT pid FROM pg_locks WHERE locktype = ''advisory'''
                             ' AND classid = %s AND objid = %s AND objsubid = 2 AND granted;',
                             pgid.lock_class(), shard);
  END IF;
END
$$;

-- Make sure that a shard's later ticks exceed `tick`. Never lowers anything.
-- Errors: ID005 busy.
--
-- The lock is the one that every change of a base takes. The block rolls back on
-- purpose, which releases the lock and leaves the sequences, as they are not
-- transactional, as it set them.
CREATE OR REPLACE FUNCTION pgid.raise_shard(shard integer, tick bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  base_seq    CONSTANT regclass := to_regclass('pgid.base_' || shard);
  counter_seq CONSTANT regclass := to_regclass('pgid.counter_' || shard);
  base        bigint;
  lag         bigint;
  tries       integer := 0;
BEGIN
  IF tick <= pgid.last_tick(shard) THEN
    RETURN; -- and the last tick only rises
  END IF;
  WHILE NOT pg_try_advisory_xact_lock(pgid.lock_class(), shard) LOOP
    tries := tries + 1;
    PERFORM pgid.refuse_if_busy(shard, tries);
    PERFORM pg_sleep(0.001);
  END LOOP;
  base := coalesce(pg_sequence_last_value(base_seq), -1);
  lag  := tick - (base + coalesce(pg_sequence_last_value(counter_seq), 0));
  IF lag > 0 THEN
    PERFORM setval(base_seq, base + lag);
  END IF;
  RAISE SQLSTATE 'IDEND';
EXCEPTION
  WHEN SQLSTATE 'IDEND' THEN NULL;
END
$$;

-- Create a shard's sequences, but not its place in the lookup. True if it was
-- created, false if it stands. In both cases its later IDs exceed `past`.
-- The caller holds the lock on pgid.shard, and refreshes the lookup.
CREATE OR REPLACE FUNCTION pgid.add_shard(shard integer, past bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  stands CONSTANT boolean := to_regclass('pgid.base_' || shard) IS NOT NULL;
BEGIN
  IF NOT stands THEN
    EXECUTE format('CREATE SEQUENCE pgid.base_%s    AS bigint MINVALUE -1 START -1 CACHE 1', shard);
    EXECUTE format('CREATE SEQUENCE pgid.counter_%s AS bigint MINVALUE  1 START  1 CACHE 1', shard);
    PERFORM pgid.close_to_others(format('pgid.base_%s', shard)::regclass);
    PERFORM pgid.close_to_others(format('pgid.counter_%s', shard)::regclass);
    PERFORM setval(format('pgid.base_%s', shard), -1);
  END IF;
  -- A dump without data has the sequences, but not the row.
  INSERT INTO pgid.shard (shard) VALUES (add_shard.shard) ON CONFLICT DO NOTHING;

  -- IDs of one millisecond sort by shard before seq: an ID of another shard is
  -- past only when its whole millisecond is.
  IF past >= 0 THEN
    PERFORM pgid.raise_shard(
      shard,
      CASE WHEN pgid.id_shard(past) = shard THEN pgid.id_tick(past) ELSE pgid.id_tick(past) | 1023 END);
    IF (past >> 23) - pgid.now_ms() > pgid.max_lead_ms() + pgid.max_wait_ms() THEN
      RAISE WARNING 'shard % issues no ID until %', shard, pgid.id_time(past)
        USING HINT = 'That is the time of the ID that it was created past. This server''s clock is behind it.';
    END IF;
  END IF;
  RETURN NOT stands;
END
$$;

-- Steps 3 and 4: may this tick be issued as it is? True when its lead is 0 to
-- max_lead ms, it is within the format, and base has not moved. One reading of the
-- clock serves both ends of the lead: |x - half| <= half is 0 <= x <= 2 * half; the one
-- tick that this leaves out goes the slow way. Whether the clock or base is read first
-- does not matter: both are read after the draw. (2^50 is the end of ticks.)
CREATE OR REPLACE FUNCTION pgid.is_issuable(tick bigint, base bigint, shard integer)
RETURNS boolean
LANGUAGE sql VOLATILE
RETURN abs(tick - (pgid.now_ms() << 10) - (pgid.max_lead_ms()::bigint * 512 + 511))
          <= pgid.max_lead_ms()::bigint * 512 + 511
   AND tick < 1125899906842624
   AND base = pgid.read_base(shard);

-- Does the law refuse a tick, drawn or not yet, by this reading of the clock?
CREATE OR REPLACE FUNCTION pgid.is_refused(tick bigint, now_ms bigint)
RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN now_ms > pgid.last_ms()
    OR tick >> 10 > pgid.last_ms()
    OR (tick >> 10) - now_ms > pgid.max_lead_ms()::bigint + pgid.max_wait_ms();

-- What the lead of a tick that is not behind the clock asks for: nothing, a wait, or
-- a refusal. The shard's lock is not held here.
-- Errors: ID004 time exhausted, ID001 clock behind the shard.
CREATE OR REPLACE FUNCTION pgid.wait_or_refuse(shard integer, tick bigint, now_ms bigint)
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

-- Reserve `count` consecutive ticks, and return the first.
-- Errors: 22004 null shard, 22023 shard or count out of range, ID001 to ID005 as next_id;
-- a refused call draws nothing.
-- Cost: 20 to 30 calls of next_id, whatever the count; it may wait for the clock.
CREATE OR REPLACE FUNCTION pgid.reserve_ticks(shard integer, count integer)
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

-- Change max_lead and max_wait, and the epoch while no shard exists. NULL leaves a
-- setting as it is; the result is what they are now. Sessions under way follow with
-- their next statement. Dump, restore and later migrations keep the settings.
-- Errors: 22023 out of range, 55000 epoch changed while there are shards.
--
-- Keep max_lead as short as bursts allow: an ID's time may be ahead of the clock by
-- it. A max_wait of 0 refuses where others would wait.
CREATE OR REPLACE FUNCTION pgid.configure(
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

-- One row a shard:
--     last_id, last_time   the last ID drawn and its time; NULL before the first
--     lead_ms              how far that is ahead of the clock; negative when behind it
--     ids_left             how many IDs the shard can still issue: ticks end at 2^50
--     created, retired     when; retired is NULL while the shard issues IDs
CREATE VIEW pgid.shard_status AS
SELECT s.shard,
       pgid.compose(last.tick, s.shard)               AS last_id,
       pgid.id_time(pgid.compose(last.tick, s.shard)) AS last_time,
       (last.tick >> 10) - clock.now_ms               AS lead_ms,
       CASE
         WHEN s.retired IS NOT NULL THEN 0
         ELSE greatest(0, 1125899906842624 - greatest(last.tick + 1, clock.now_ms << 10))
       END                                            AS ids_left,
       s.created,
       s.retired
  FROM pgid.shard AS s
 CROSS JOIN LATERAL (SELECT s.shard, pgid.now_ms() AS now_ms) AS clock
  -- A call that is refused at the end of time may have burnt a tick beyond it.
  LEFT JOIN LATERAL (
         SELECT least(drawn, 1125899906842623) AS tick
           FROM pgid.last_tick(s.shard) AS drawn
          WHERE drawn IS NOT NULL
       ) AS last ON true;

COMMENT ON VIEW pgid.shard_status IS
  'A row per shard: last ID and time, lead over the clock, IDs left, created, retired';

ALTER TABLE pgid.shard DROP COLUMN moved_to;

DROP FUNCTION pgid.note_step();
DROP FUNCTION pgid.keep_high(bigint);
DROP FUNCTION pgid.refuse_pool(text);
DROP FUNCTION pgid.require_window(integer);
DROP FUNCTION pgid.take_window(integer, bigint, integer);
DROP FUNCTION pgid.hold_lease(integer, bigint);
DROP FUNCTION pgid.release_lease(integer, bigint);
DROP FUNCTION pgid.renew_lease(integer, bigint, integer);
DROP FUNCTION pgid.acquire_lease(text, text, integer);
DROP FUNCTION pgid.require_pool_name(text);
DROP FUNCTION pgid.create_pool(text, integer, integer);
DROP FUNCTION pgid.take_ticks(integer, bigint, bigint);
DROP FUNCTION pgid.refuse_tick(integer, bigint, bigint);
DROP FUNCTION pgid.is_beyond(bigint, bigint, bigint);
DROP FUNCTION pgid.mid_lead();
DROP FUNCTION pgid.retire_shard(integer);
DROP FUNCTION pgid.advance_shard(integer, bigint);
DROP FUNCTION pgid.raise_past(integer, bigint);
DROP FUNCTION pgid.lock_shard(integer);
DROP FUNCTION pgid.refuse_retired(integer);
DROP FUNCTION pgid.is_retired(integer);
DROP FUNCTION pgid.drawn(integer);
DROP FUNCTION pgid.base(integer);
DROP FUNCTION pgid.read_sequence(regclass, bigint);
DROP FUNCTION pgid.require_readable(regclass, bigint);
DROP FUNCTION pgid.retired_base();
DROP FUNCTION pgid.retiring_base();
DROP SEQUENCE pgid.lease_fence;
DROP SEQUENCE pgid.count_waits;
DROP SEQUENCE pgid.count_refusals;
DROP SEQUENCE pgid.count_busy;
DROP SEQUENCE pgid.count_steps;
DROP SEQUENCE pgid.clock_high;

-- Whatever default privileges have given on the view is taken back, as in step 1.
DO $$
BEGIN
  PERFORM pgid.close_to_others('pgid.shard_status');
END
$$;

-- The search_path that was set aside.
DO $$
BEGIN
  PERFORM pg_catalog.set_config('search_path', pg_catalog.current_setting('pgid.caller_path'), true);
END
$$;
