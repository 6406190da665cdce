-- pgid 2, undone: the functions of pgid 1 again. Shards, and settings that were changed, stay as they are.

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
RETURN 1;

-- The ID of a tick. Cost: inlined, five bit operations.
CREATE OR REPLACE FUNCTION pgid.compose(tick bigint, shard integer)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ((tick >> 10) << 23) | (shard << 10)::bigint | (tick & 1023);

-- Milliseconds since the epoch by the server's clock, read now (not at the start
-- of the transaction). Negative before the epoch.
--
-- Exact to the millisecond boundary: date_part gives seconds as a double, good to
-- 0.24 us until 2106; times a million, the cast rounds it to the microsecond that
-- the clock showed, and the division is between integers. extract() is exact by
-- itself, as a numeric, and 0.2 us slower.
CREATE OR REPLACE FUNCTION pgid.now_ms()
RETURNS bigint
LANGUAGE sql VOLATILE
RETURN (date_part('epoch', clock_timestamp()) * 1000000)::bigint / 1000 - pgid.epoch_ms();

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
  last_ms     CONSTANT bigint   := 1099511627775; -- 2^40 - 1: the last millisecond to issue IDs in
  now_ms      bigint;
  lead        bigint;
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
        EXIT WHEN tick >> 10 >= now_ms OR now_ms > last_ms;

        -- Behind the clock: catch up. Nobody else moves base while we hold the lock.
        IF pg_try_advisory_xact_lock(pgid.lock_class(), shard) THEN
          base   := coalesce(pg_sequence_last_value(base_seq), -1);
          tick   := base + nextval(counter_seq);
          now_ms := pgid.now_ms();
          IF tick >> 10 < now_ms AND now_ms <= last_ms THEN
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

  -- The tick is ours, and not behind the clock as it was read for it. Its lead decides.
  lead := (tick >> 10) - now_ms;
  IF now_ms > last_ms OR tick >> 10 > last_ms THEN
    RAISE EXCEPTION 'the time of shard % is exhausted: IDs end at %', shard,
        to_timestamp((pgid.epoch_ms() + last_ms)::double precision / 1000)
      USING ERRCODE = 'ID004',
            HINT    = CASE
                        WHEN now_ms > last_ms
                        THEN 'If the server''s clock is wrong, correct it: the shard is none the worse.'
                        ELSE 'The shard was created past an ID of the end of time. Use another shard.'
                      END;
  END IF;
  IF lead > pgid.max_lead_ms() + pgid.max_wait_ms() THEN
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
  IF pgid.is_issuable(tick, base, shard) THEN
    RETURN pgid.compose(tick, shard);
  END IF;
  RETURN pgid.next_id_slow(shard, base, tick);
END
$$;

DROP FUNCTION
  pgid.configure(integer, integer, bigint),
  pgid.reserve(integer, integer),
  pgid.next_ids(integer, integer),
  pgid.refuse_count(integer),
  pgid.reserve_ticks(integer, integer),
  pgid.wait_or_refuse(integer, bigint, bigint),
  pgid.is_refused(bigint, bigint),
  pgid.last_ms(),
  pgid.clock()
RESTRICT;

-- The search_path that was set aside.
DO $$
BEGIN
  PERFORM pg_catalog.set_config('search_path', pg_catalog.current_setting('pgid.caller_path'), true);
END
$$;
