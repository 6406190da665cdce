-- The law of a shard, and the call that everybody makes.
--
--     next tick = max(last tick + 1, now_ms << 10)
--     lead      = (tick >> 10) - now_ms
--
--     lead <= max_lead                issue
--     lead <= max_lead + max_wait     sleep lead - max_lead ms, then issue
--     otherwise                       refuse: ID001
--
-- A shard's tick is  base + counter, two sequences, so that the common case takes
-- no lock:
--
--     1. read base     2. n = nextval(counter)     3. read the clock     4. read base again
--
-- If base reads the same before and after the draw, it had that value at the draw,
-- because it only ever rises. So the tick of the n-th draw is base-at-n + n, with
-- base never falling as n grows: ticks strictly increase in the order of the draws,
-- for any interleaving, any stall and any clock. The clock is only a label.
-- If base moved, the draw is burnt and the call starts over; if the tick is behind
-- the clock, the shard catches up, under a lock, at most once a millisecond.

-- Step 1 and step 4.
CREATE FUNCTION pgid.read_base(shard integer)
RETURNS bigint
LANGUAGE sql VOLATILE
RETURN pg_sequence_last_value(pgid.base_sequence(shard));

-- Step 2: the tick of a new draw.
CREATE FUNCTION pgid.draw(base bigint, shard integer)
RETURNS bigint
LANGUAGE sql VOLATILE
RETURN base + nextval(pgid.counter_sequence(shard));

-- The middle of the clock's readings at which a tick of the epoch may be issued:
-- is_issuable says why.
CREATE FUNCTION pgid.mid_lead()
RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN to_timestamp((pgid.epoch_ms() - (pgid.max_lead_ms() - 1)::double precision / 2) / 1000);

-- Steps 3 and 4: may this tick be issued as it is? True when its lead is 0 to
-- max_lead ms, it is within the format, and base has not moved. Whether the clock or
-- base is read first does not matter: both are read after the draw.
--
-- The lead of a tick of millisecond m is 0 to max_lead while the clock is at least
-- m - max_lead, and less than m + 1. One reading of it serves both ends: it must be
-- within (max_lead + 1) / 2 ms of the middle, m - (max_lead - 1) / 2. Half a microsecond
-- off the limit keeps it between two readings that the clock can show, where the
-- rounding of doubles, 0.24 us until 2106, decides nothing. The first of the
-- microseconds that this leaves out goes the slow way. (2^50 is the end of ticks.)
CREATE FUNCTION pgid.is_issuable(tick bigint, base bigint, shard integer)
RETURNS boolean
LANGUAGE sql VOLATILE
RETURN abs(tstzrange_subdiff(pgid.clock(), pgid.mid_lead()) - (tick >> 10)::double precision / 1000)
          < (pgid.max_lead_ms() + 1) * 0.0005::double precision - 0.0000005::double precision
   AND tick < 1125899906842624
   AND base = pgid.read_base(shard);

-- The last millisecond to issue IDs in: 2^40 - 1.
CREATE FUNCTION pgid.last_ms()
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 1099511627775;

-- Is a tick past the end of time, or further ahead of this reading of the clock than
-- it may be? The base of a retired shard puts every tick past the end.
CREATE FUNCTION pgid.is_beyond(tick bigint, now_ms bigint, lead_ms bigint)
RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN now_ms > pgid.last_ms()
    OR tick >> 10 > pgid.last_ms()
    OR (tick >> 10) - now_ms > lead_ms;

-- Does the law refuse a tick, drawn or not yet, by this reading of the clock?
CREATE FUNCTION pgid.is_refused(tick bigint, now_ms bigint)
RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN pgid.is_beyond(tick, now_ms, pgid.max_lead_ms()::bigint + pgid.max_wait_ms());

-- What the lead of a tick that is not behind the clock asks for: nothing, a wait, or
-- a refusal. The shard's lock is not held here.
-- Errors: as refuse_tick.
CREATE FUNCTION pgid.wait_or_refuse(shard integer, tick bigint, now_ms bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  lead CONSTANT bigint := (tick >> 10) - now_ms;
BEGIN
  IF now_ms < pgid.keep_high(now_ms) THEN
    PERFORM pgid.note_step();
  END IF;
  IF pgid.is_refused(tick, now_ms) THEN
    PERFORM pgid.refuse_tick(shard, tick, now_ms);
  END IF;
  IF lead > pgid.max_lead_ms() THEN
    PERFORM nextval('pgid.count_waits');
    PERFORM pg_sleep((lead - pgid.max_lead_ms()) / 1000.0);
  END IF;
END
$$;

-- Errors: always; ID003 retired, ID004 time exhausted, ID001 clock behind the shard.
CREATE FUNCTION pgid.refuse_tick(shard integer, tick bigint, now_ms bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF tick >= pgid.retiring_base() THEN
    PERFORM pgid.refuse_retired(shard);
  END IF;
  PERFORM nextval('pgid.count_refusals');
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
  RAISE EXCEPTION
      'the clock is behind shard %: its next ID is % ms ahead, more than the % it may be and the % waited for',
      shard, (tick >> 10) - now_ms, pgid.max_lead_ms(), pgid.max_wait_ms()
    USING ERRCODE = 'ID001',
          HINT    = CASE
                      WHEN EXISTS (SELECT FROM pgid.lease AS l WHERE l.shard = refuse_tick.shard)
                      THEN 'The shard is set apart for leases, and one is ahead of the clock: use another shard.'
                      ELSE 'If the server''s clock is wrong, correct it; else wait until it has caught up.'
                           ' Nothing was repeated.'
                    END;
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
CREATE FUNCTION pgid.next_id_slow(shard integer, base bigint, tick bigint)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  base_seq    regclass;
  counter_seq regclass;
  now_ms      bigint;
  tries       integer := 0;
BEGIN
  base_seq := to_regclass('pgid.base_' || shard);
  IF base IS NULL OR base_seq IS NULL THEN -- not in the lookup, never set, or no shard
    PERFORM pgid.require_shard(shard);
    base_seq := to_regclass('pgid.base_' || shard); -- it may have been created just now
  END IF;
  counter_seq := ('pgid.counter_' || shard)::regclass;

  BEGIN
    LOOP
      -- The tick is ours if base still reads as it did before the draw.
      IF base = pgid.read_sequence(base_seq, -1) THEN
        now_ms := pgid.now_ms();
        EXIT WHEN tick >> 10 >= now_ms OR now_ms > pgid.last_ms(); -- so does the tick of a retired shard

        -- Behind the clock: catch up. Nobody else moves base while we hold the lock.
        IF pg_try_advisory_xact_lock(pgid.lock_class(), shard) THEN
          base   := pgid.read_sequence(base_seq, -1);
          tick   := base + nextval(counter_seq);
          now_ms := pgid.now_ms();
          IF tick >> 10 < now_ms AND now_ms <= pgid.last_ms() THEN
            base := setval(base_seq, base + (now_ms << 10) - tick - 1);
            tick := base + nextval(counter_seq);
            IF now_ms < pgid.keep_high(now_ms) THEN -- stats.sql says what for
              PERFORM pgid.note_step();
            END IF;
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

      base := pgid.read_sequence(base_seq, -1);
      tick := base + nextval(counter_seq);
    END LOOP;
  EXCEPTION
    WHEN SQLSTATE 'IDEND' THEN NULL;
  END;

  -- The tick is ours, and not behind the clock as it was read for it.
  IF pgid.is_beyond(tick, now_ms, pgid.max_lead_ms()) THEN
    PERFORM pgid.wait_or_refuse(shard, tick, now_ms);
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
-- Three statements, as few as can be: each takes a snapshot of its own. base is looked
-- up in two of them, which costs an ID less than a statement for that would.
--
-- The functions called here are inlined, and qualified: nothing in this body is looked
-- up along the caller's search_path, or among its temporary objects.
CREATE FUNCTION pgid.next_id(shard integer)
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

-- The shard that the setting pgid.shard names: of the database, the role, the
-- session or (under a pooler: only) the transaction. NULL if it names none.
CREATE FUNCTION pgid.current_shard()
RETURNS integer
LANGUAGE sql STABLE
RETURN CASE
  WHEN current_setting('pgid.shard', true) ~ '^[0-9]{1,4}$'
  THEN current_setting('pgid.shard', true)::integer
END;

-- The next ID of the shard that the setting pgid.shard names.
-- Errors: 22023 not set, or not a number from 0 to 8191; else as next_id(shard).
CREATE FUNCTION pgid.next_id()
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
DECLARE
  shard integer := pgid.current_shard();
BEGIN
  IF shard IS NULL THEN
    RETURN pgid.refuse_setting();
  END IF;
  RETURN pgid.next_id(shard);
END
$$;

-- Errors: always 22023.
CREATE FUNCTION pgid.refuse_setting()
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  setting CONSTANT text := left(translate(coalesce(current_setting('pgid.shard', true), ''), E'\r\n', '  '), 40);
BEGIN
  RAISE EXCEPTION '%', CASE WHEN setting = ''
      THEN 'the setting pgid.shard is not set'
      ELSE format('the setting pgid.shard is %L, not a shard from 0 to 8191', setting)
    END
    USING ERRCODE = '22023',
          HINT    = 'Set it in the session, SET pgid.shard = 5; or for all, with the right to:'
                    ' ALTER DATABASE mydb SET pgid.shard = 5;';
END
$$;

COMMENT ON FUNCTION pgid.next_id(integer) IS 'The next ID of a shard, larger than all before it';
COMMENT ON FUNCTION pgid.next_id()        IS 'The next ID of the shard that the setting pgid.shard names';
