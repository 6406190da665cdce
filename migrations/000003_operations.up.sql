-- pgid 3: the life of a shard (advance_shard, retire_shard), leases, and what an operator wants to know.
-- Once released, this file does not change any more. The functions as they stand are in sql/.

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

-- The version of these functions: the number of the migration that brought them.
CREATE OR REPLACE FUNCTION pgid.version()
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 3;

-- The database that «pgid shard move» carried a shard to.
ALTER TABLE pgid.shard ADD COLUMN moved_to text;

-- While a shard is being retired, its base is 2^51, and one more than it was; once it
-- is, 2^52, and one more than its last tick. Either puts all ticks past their end, 2^50.
CREATE FUNCTION pgid.retiring_base()
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 2251799813685248;

CREATE FUNCTION pgid.retired_base()
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 4503599627370496;

-- What a sequence without a last value counts as: `unset`, if it was never set nor drawn
-- from. PostgreSQL 17 and later say the same of one that may not be read; to count from
-- `unset` there would repeat IDs.
-- Errors: 42501 it may not be read.
CREATE FUNCTION pgid.require_readable(sequence regclass, unset bigint)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF NOT has_sequence_privilege(sequence, 'SELECT, USAGE') THEN
    RAISE EXCEPTION 'permission denied for sequence %', sequence
      USING ERRCODE = '42501',
            HINT    = 'The owner of the schema pgid has to own what is in it: ask «pgid doctor».';
  END IF;
  RETURN unset;
END
$$;

-- The last value of a sequence.
-- Errors: as require_readable.
CREATE FUNCTION pgid.read_sequence(sequence regclass, unset bigint)
RETURNS bigint
LANGUAGE sql VOLATILE
RETURN coalesce(pg_sequence_last_value(sequence), pgid.require_readable(sequence, unset));

-- A shard's base as it stands, NULL if there is no such shard. By name: this also
-- reads shards that the lookup does not show.
CREATE FUNCTION pgid.base(shard integer)
RETURNS bigint
LANGUAGE sql VOLATILE
RETURN CASE
  WHEN to_regclass('pgid.base_' || shard) IS NOT NULL
  THEN pgid.read_sequence(to_regclass('pgid.base_' || shard), -1)
END;

-- How often next_id has drawn from a shard: ranges and raises do not.
CREATE FUNCTION pgid.drawn(shard integer)
RETURNS bigint
LANGUAGE sql VOLATILE
RETURN pgid.read_sequence(to_regclass('pgid.counter_' || shard), 0);

-- A shard's last tick as it stands, NULL if it has drawn none.
CREATE OR REPLACE FUNCTION pgid.last_tick(shard integer)
RETURNS bigint
LANGUAGE sql VOLATILE
RETURN nullif(
  CASE
    WHEN pgid.base(shard) >= pgid.retired_base()  THEN pgid.base(shard) - pgid.retired_base() - 1
    WHEN pgid.base(shard) >= pgid.retiring_base() THEN pgid.base(shard) - pgid.retiring_base() - 1 + pgid.drawn(shard)
    ELSE pgid.base(shard) + pgid.drawn(shard)
  END,
  -1);

-- Refuse a shard that cannot issue IDs.
-- Errors: 22004 null, 22023 out of range, ID003 retired, ID002 not created.
--
-- Whether it exists is asked of the catalog, not of the table: a transaction whose
-- snapshot is older than the shard may use it all the same.
CREATE OR REPLACE FUNCTION pgid.require_shard(shard integer)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM pgid.require_shard_number(shard);
  IF pgid.is_retired(shard) THEN
    PERFORM pgid.refuse_retired(shard);
  END IF;
  IF to_regclass('pgid.base_' || shard) IS NULL THEN
    RAISE EXCEPTION 'shard % does not exist in this database', shard
      USING ERRCODE = 'ID002',
            HINT    = format('Create it as the owner of the schema pgid: SELECT pgid.create_shard(%s);', shard);
  END IF;
END
$$;

-- By its base, or by its row alone, which is all that a dump without sequences, or
-- replication, brings along.
CREATE FUNCTION pgid.is_retired(shard integer)
RETURNS boolean
LANGUAGE sql VOLATILE
RETURN coalesce(pgid.base(shard) >= pgid.retiring_base(), false)
    OR EXISTS (SELECT FROM pgid.shard AS s WHERE s.shard = is_retired.shard AND s.retired IS NOT NULL);

-- Errors: always ID003.
CREATE FUNCTION pgid.refuse_retired(shard integer)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RAISE EXCEPTION 'shard % is retired', shard
    USING ERRCODE = 'ID003',
          HINT    = 'It issues no more IDs. Use another shard of this database, or the one that took its place.';
END
$$;

-- Redefine the lookup to show the shards that exist.
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
   WHERE to_regclass('pgid.base_' || n) IS NOT NULL;

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
    PERFORM nextval('pgid.count_busy');
    RAISE EXCEPTION 'shard % is busy: its lock stayed taken through % tries', shard, tries - 1
      USING ERRCODE = 'ID005',
            HINT    = format('See who holds it: SELECT pid FROM pg_locks WHERE locktype = ''advisory'''
                             ' AND database = %s AND classid = %s AND objid = %s AND objsubid = 2 AND granted;',
                             (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()),
                             pgid.lock_class(), shard);
  END IF;
END
$$;

-- Take the lock that every change of a base needs, and return the shard's draws as
-- they were just before that. Call it in a block that ends with RAISE SQLSTATE 'IDEND',
-- and catches it: rolling back releases the lock, and leaves the sequences, as they
-- are not transactional, as the block set them.
-- Errors: ID005 busy; 42P01 the shard has lost its counter.
CREATE FUNCTION pgid.lock_shard(shard integer)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  counter_seq CONSTANT regclass := ('pgid.counter_' || shard)::regclass;
  drawn       bigint;
  tries       integer := 0;
BEGIN
  LOOP
    drawn := pgid.read_sequence(counter_seq, 0);
    EXIT WHEN pg_try_advisory_xact_lock(pgid.lock_class(), shard);
    tries := tries + 1;
    PERFORM pgid.refuse_if_busy(shard, tries);
    PERFORM pg_sleep(0.0001); -- in practice a millisecond
  END LOOP;
  RETURN drawn;
END
$$;

-- Make sure that a shard's later ticks exceed `tick`. Never lowers anything.
-- Errors: ID005 busy.
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
BEGIN
  PERFORM pgid.lock_shard(shard);
  base := pgid.read_sequence(base_seq, -1);
  lag  := tick - (base + pgid.read_sequence(counter_seq, 0));
  IF lag > 0 THEN
    PERFORM setval(base_seq, base + lag);
  END IF;
  RAISE SQLSTATE 'IDEND';
EXCEPTION
  WHEN SQLSTATE 'IDEND' THEN NULL;
END
$$;

-- Make sure that a shard's later IDs exceed `past`, an ID of any shard. True if it had
-- to be raised, false if it was past already. Warns if it will issue nothing for a while.
-- Errors: ID005 busy.
--
-- IDs of one millisecond sort by shard before seq: an ID of another shard is past
-- only when its whole millisecond is.
CREATE FUNCTION pgid.raise_past(shard integer, past bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  tick CONSTANT bigint :=
    CASE WHEN pgid.id_shard(past) = shard THEN pgid.id_tick(past) ELSE pgid.id_tick(past) | 1023 END;
BEGIN
  -- Every ID of a shard is past one from before the epoch.
  IF (past >= 0 AND tick > coalesce(pgid.last_tick(shard), -1)) IS NOT TRUE THEN
    RETURN false; -- and the last tick only rises
  END IF;
  IF (past >> 23) - pgid.now_ms() > pgid.max_lead_ms() + pgid.max_wait_ms() THEN
    RAISE WARNING 'shard % issues no ID until %', shard, pgid.id_time(past)
      USING HINT = 'That is the time of the ID that it was to be raised past. This server''s clock is behind it.';
  END IF;
  PERFORM pgid.raise_shard(shard, tick);
  RETURN true;
END
$$;

-- Create a shard's sequences, but not its place in the lookup. True if it was
-- created, false if it stands. In both cases its later IDs exceed `past`.
-- The caller holds the lock on pgid.shard, and refreshes the lookup.
-- Errors: ID003 retired, if its sequences are not there.
CREATE OR REPLACE FUNCTION pgid.add_shard(shard integer, past bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  stands CONSTANT boolean := to_regclass('pgid.base_' || shard) IS NOT NULL;
BEGIN
  IF NOT stands THEN
    IF pgid.is_retired(shard) THEN
      PERFORM pgid.refuse_retired(shard);
    END IF;
    EXECUTE format('CREATE SEQUENCE pgid.base_%s    AS bigint MINVALUE -1 START -1 CACHE 1', shard);
    EXECUTE format('CREATE SEQUENCE pgid.counter_%s AS bigint MINVALUE  1 START  1 CACHE 1', shard);
    PERFORM pgid.close_to_others(format('pgid.base_%s', shard)::regclass);
    PERFORM pgid.close_to_others(format('pgid.counter_%s', shard)::regclass);
    PERFORM setval(format('pgid.base_%s', shard), -1);
  END IF;
  -- A dump without data has the sequences, but not the row.
  INSERT INTO pgid.shard (shard) VALUES (add_shard.shard) ON CONFLICT DO NOTHING;

  PERFORM pgid.raise_past(shard, past);
  RETURN NOT stands;
END
$$;

-- Make sure that a shard's later IDs exceed `past`, an ID of any shard. True if it
-- had to be raised, false if it was past already; it is never lowered. For a shard
-- whose table holds newer IDs than it remembers: after a restore, say.
-- Errors: 22004 null, 22023 shard out of range, ID002 no such shard, ID003 retired,
-- ID005 busy.
CREATE FUNCTION pgid.advance_shard(shard integer, past bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM pgid.require_shard_number(shard);
  IF past IS NULL THEN
    RAISE EXCEPTION 'the ID to advance shard % past is null', shard
      USING ERRCODE = '22004',
            HINT    = 'It is the largest ID that the shard may not fall behind, as in max(id) of a table.';
  END IF;
  LOCK TABLE pgid.shard IN SHARE ROW EXCLUSIVE MODE; -- nobody retires it meanwhile
  PERFORM pgid.require_shard(shard);
  RETURN pgid.raise_past(shard, past);
END
$$;

-- Stop a shard for good, and return its last ID, NULL if it has none: no ID of it is
-- larger, whoever drew it. For a shard that moves to another database, or is not
-- wanted any more. Once more, and it returns the same.
-- Errors: 22004 null, 22023 shard out of range, ID002 no such shard, ID005 busy.
--
-- It holds at once, for every session, whatever its snapshot or its plans, and a
-- rollback does not undo it: base is set past the end of time, and with it every tick.
-- The first step stops the shard. Only after that do its draws so far say what the last
-- tick was; the second step keeps it. Interrupted in between, the next call goes on.
-- IDs in hand stay good, those of a lease to the end of its window: the last ID is not
-- below them.
CREATE FUNCTION pgid.retire_shard(shard integer)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  base_seq regclass;
  base     bigint;
BEGIN
  PERFORM pgid.require_shard_number(shard);
  LOCK TABLE pgid.shard IN SHARE ROW EXCLUSIVE MODE; -- nobody creates it meanwhile
  base_seq := to_regclass('pgid.base_' || shard);
  IF base_seq IS NULL THEN
    PERFORM pgid.require_shard(shard);
  END IF;

  BEGIN
    PERFORM pgid.lock_shard(shard);
    base := pgid.base(shard);
    IF base < pgid.retiring_base() THEN
      base := setval(base_seq, pgid.retiring_base() + 1 + base);
    END IF;
    IF base < pgid.retired_base() THEN
      base := base - pgid.retiring_base() - 1;
      PERFORM setval(base_seq, pgid.retired_base() + 1 + base + pgid.drawn(shard));
    END IF;
    RAISE SQLSTATE 'IDEND'; -- the rollback releases the lock: see lock_shard
  EXCEPTION
    WHEN SQLSTATE 'IDEND' THEN NULL;
  END;

  INSERT INTO pgid.shard AS s (shard, retired)
  VALUES (retire_shard.shard, clock_timestamp())
      ON CONFLICT ON CONSTRAINT shard_pkey DO UPDATE
     SET retired = coalesce(s.retired, excluded.retired);
  RETURN pgid.compose(pgid.last_tick(shard), shard);
END
$$;

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
CREATE OR REPLACE FUNCTION pgid.is_issuable(tick bigint, base bigint, shard integer)
RETURNS boolean
LANGUAGE sql VOLATILE
RETURN abs(tstzrange_subdiff(pgid.clock(), pgid.mid_lead()) - (tick >> 10)::double precision / 1000)
          < (pgid.max_lead_ms() + 1) * 0.0005::double precision - 0.0000005::double precision
   AND tick < 1125899906842624
   AND base = pgid.read_base(shard);

-- Is a tick past the end of time, or further ahead of this reading of the clock than
-- it may be? The base of a retired shard puts every tick past the end.
CREATE FUNCTION pgid.is_beyond(tick bigint, now_ms bigint, lead_ms bigint)
RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN now_ms > pgid.last_ms()
    OR tick >> 10 > pgid.last_ms()
    OR (tick >> 10) - now_ms > lead_ms;

-- Does the law refuse a tick, drawn or not yet, by this reading of the clock?
CREATE OR REPLACE FUNCTION pgid.is_refused(tick bigint, now_ms bigint)
RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN pgid.is_beyond(tick, now_ms, pgid.max_lead_ms()::bigint + pgid.max_wait_ms());

-- What the lead of a tick that is not behind the clock asks for: nothing, a wait, or
-- a refusal. The shard's lock is not held here.
-- Errors: as refuse_tick.
CREATE OR REPLACE FUNCTION pgid.wait_or_refuse(shard integer, tick bigint, now_ms bigint)
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
CREATE OR REPLACE FUNCTION pgid.next_id_slow(shard integer, base bigint, tick bigint)
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

-- Take `count` consecutive ticks, from `first` to `last`, by a reading of the clock,
-- `now_ms`, that the last one leads by at most lead_ms. If it would lead by more, or
-- be past the end of time, nothing is taken: ask is_beyond.
-- Errors: ID005 busy. Cost: 20 to 30 calls of next_id, whatever the count.
CREATE FUNCTION pgid.take_ticks(
  shard   integer,
  count   bigint,
  lead_ms bigint,
  OUT first  bigint,
  OUT last   bigint,
  OUT now_ms bigint
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  base_seq    CONSTANT regclass := to_regclass('pgid.base_' || shard);
  counter_seq CONSTANT regclass := to_regclass('pgid.counter_' || shard);
  base        bigint;
  before      bigint; -- draws by anybody, before we had the lock
  drawn       bigint; -- and before we raised base
  lag         bigint; -- ticks between the last one drawn and our first
  meanwhile   bigint; -- draws by others while we raised base
  pad         bigint;
BEGIN
  before := pgid.lock_shard(shard);

  -- Alone, there is nobody to leave room for; in company, for some times more draws
  -- than were made while we took the lock. Is that too little, leave more next time.
  pad := 4 * (pgid.read_sequence(counter_seq, 0) - before);
  LOOP
    base   := pgid.read_sequence(base_seq, -1);
    drawn  := pgid.read_sequence(counter_seq, 0);
    now_ms := pgid.now_ms();
    lag    := greatest((now_ms << 10) - (base + drawn + 1), 0) + pad;
    first  := base + drawn + 1 + lag;
    last   := first + count - 1;
    EXIT WHEN pgid.is_beyond(last, now_ms, lead_ms);

    PERFORM setval(base_seq, base + lag + count);
    meanwhile := pgid.read_sequence(counter_seq, 0) - drawn;
    EXIT WHEN meanwhile <= lag;
    pad := 2 * pad + 4 * meanwhile;
  END LOOP;
  RAISE SQLSTATE 'IDEND'; -- the rollback releases the lock: see next_id_slow
EXCEPTION
  WHEN SQLSTATE 'IDEND' THEN NULL;
END
$$;

-- Reserve `count` consecutive ticks by the law, and return the first.
-- Errors: 22004 null shard, 22023 shard or count out of range, ID001 to ID005 as next_id;
-- a refused call draws nothing. It may wait for the clock.
CREATE OR REPLACE FUNCTION pgid.reserve_ticks(shard integer, count integer)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  most_ms CONSTANT bigint := pgid.max_lead_ms()::bigint + pgid.max_wait_ms();
  range   record;
BEGIN
  PERFORM pgid.require_shard_number(shard);
  IF (count BETWEEN 1 AND pgid.max_lead_ms()::bigint * 1024) IS NOT TRUE THEN
    PERFORM pgid.refuse_count(count);
  END IF;
  IF pg_sequence_last_value(to_regclass('pgid.base_' || shard)) IS NULL THEN
    PERFORM pgid.require_shard(shard); -- there is none, or its base was never set
  END IF;
  range := pgid.take_ticks(shard, count, most_ms);
  IF pgid.is_beyond(range.last, range.now_ms, most_ms) THEN -- by the same limit: configure may raise it meanwhile
    PERFORM pgid.refuse_tick(shard, range.last, range.now_ms);
  END IF;
  PERFORM pgid.wait_or_refuse(shard, range.last, range.now_ms);
  RETURN range.first;
END
$$;

CREATE SEQUENCE pgid.lease_fence;

CREATE TABLE pgid.lease (
  shard      integer PRIMARY KEY REFERENCES pgid.shard,
  pool       text    NOT NULL CHECK (pool <> ''),
  holder     text,                      -- NULL when it was given back
  fence      bigint,                    -- the number of the grant; NULL before the first
  from_tick  bigint  NOT NULL DEFAULT 0, -- the window granted last
  until_tick bigint  NOT NULL DEFAULT 0,
  granted    timestamptz,
  renewed    timestamptz
);

-- Set the shards from `first` to `last`, both included, apart for leases, and create
-- those that do not exist. Returns how many were added to the pool. Take them out again
-- with DELETE FROM pgid.lease.
-- Errors: 22004 null, 22023 out of range, or first after last, or no name; 55000 a
-- shard belongs to another pool; ID003 retired.
CREATE FUNCTION pgid.create_pool(pool text, first integer, last integer)
RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  other pgid.lease;
  added integer;
BEGIN
  PERFORM pgid.require_pool_name(pool);
  PERFORM pgid.create_shards(first, last);
  PERFORM pgid.require_shard(n) FROM generate_series(first, last) AS n;

  SELECT l.* INTO other
    FROM pgid.lease AS l
   WHERE l.shard BETWEEN first AND last
     AND l.pool <> create_pool.pool
   ORDER BY l.shard
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'shard % belongs to the pool %', other.shard, other.pool
      USING ERRCODE = '55000',
            HINT    = format('Take it out of there first: DELETE FROM pgid.lease WHERE shard = %s;', other.shard);
  END IF;

  INSERT INTO pgid.lease (shard, pool)
  SELECT n, create_pool.pool
    FROM generate_series(first, last) AS n
      ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS added = ROW_COUNT;
  RETURN added;
END
$$;

-- Errors: 22004 null, 22023 empty.
CREATE FUNCTION pgid.require_pool_name(pool text)
RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF pool IS NULL OR pool = '' THEN
    RAISE EXCEPTION 'the pool has no name'
      USING ERRCODE = CASE WHEN pool IS NULL THEN '22004' ELSE '22023' END,
            HINT    = 'Name it, as in pgid.create_pool(''workers'', 100, 115).';
  END IF;
END
$$;

-- Grant any free shard of a pool: one whose last window is over, and which nothing
-- else, a grant that was rolled back say, has put far ahead of the clock. Returns the shard,
-- the grant's fence, its window of ticks, and the clock as it was read for it. Use the
-- window once this is committed, not before; a commit that the server has not flushed
-- would not be one, so synchronous_commit is turned on for this transaction.
-- Errors: 22004 null or 22023 empty pool or holder, 22023 window_ms out of range or no
-- such pool, ID006 none is free, ID001 to ID005 as reserve.
CREATE FUNCTION pgid.acquire_lease(
  pool      text,
  holder    text,
  window_ms integer DEFAULT 10000,
  OUT shard      integer,
  OUT fence      bigint,
  OUT from_tick  bigint,
  OUT until_tick bigint,
  OUT now_ms     bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM pgid.require_pool_name(pool);
  PERFORM pgid.require_window(window_ms);
  IF holder IS NULL OR holder = '' THEN
    RAISE EXCEPTION 'the holder has no name'
      USING ERRCODE = CASE WHEN holder IS NULL THEN '22004' ELSE '22023' END,
            HINT    = 'Name the process that will use the lease, as in ''web-3 (pid 4711)''.';
  END IF;

  SELECT l.shard
    INTO shard
    FROM pgid.lease AS l
   WHERE l.pool = acquire_lease.pool
     AND l.until_tick <= pgid.now_ms() << 10
     AND pgid.base(l.shard) IS NOT NULL
     AND NOT pgid.is_retired(l.shard)
     AND NOT pgid.is_refused(coalesce(pgid.last_tick(l.shard), 0), pgid.now_ms())
   ORDER BY l.shard IN (
              SELECT k.objid::bigint
                FROM pg_locks AS k
                JOIN pg_database AS d ON d.oid = k.database
               WHERE k.locktype = 'advisory'
                 AND k.classid = pgid.lock_class()::oid
                 AND d.datname = current_database()), -- one whose lock somebody sits on comes last
            l.until_tick, l.shard
   LIMIT 1
     FOR UPDATE OF l SKIP LOCKED;
  IF NOT FOUND THEN
    PERFORM pgid.refuse_pool(pool);
  END IF;

  SELECT w.* INTO from_tick, until_tick, now_ms
    FROM pgid.take_window(shard, window_ms::bigint * 1024, window_ms) AS w;
  UPDATE pgid.lease AS l
     SET holder     = acquire_lease.holder,
         fence      = nextval('pgid.lease_fence'),
         from_tick  = acquire_lease.from_tick,
         until_tick = acquire_lease.until_tick,
         granted    = pgid.clock(),
         renewed    = NULL
   WHERE l.shard = acquire_lease.shard
  RETURNING l.fence INTO fence;
END
$$;

-- Renew a lease: grant its holder a further window, up to window_ms past the clock.
-- It starts at the end of the last one, or later, and does so also after the lease
-- expired, if nobody else was granted the shard since. If the shard is that far ahead
-- already (the clock went back, or a renewal was rolled back), the window is empty.
-- Errors: 22004 null, 22023 out of range, ID007 the lease is lost, ID001 to ID005 as reserve.
CREATE FUNCTION pgid.renew_lease(
  shard     integer,
  fence     bigint,
  window_ms integer DEFAULT 10000,
  OUT from_tick  bigint,
  OUT until_tick bigint,
  OUT now_ms     bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  count bigint;
BEGIN
  PERFORM pgid.require_window(window_ms);
  until_tick := pgid.hold_lease(shard, fence);
  now_ms     := pgid.now_ms();
  from_tick  := until_tick;
  count      := least(
                  ((now_ms + window_ms) << 10) - greatest(until_tick, pgid.last_tick(shard) + 1),
                  window_ms::bigint * 1024);
  IF count <= 0 THEN
    RETURN;
  END IF;

  SELECT w.* INTO from_tick, until_tick, now_ms
    FROM pgid.take_window(shard, count, window_ms) AS w;
  UPDATE pgid.lease AS l
     SET from_tick  = renew_lease.from_tick,
         until_tick = renew_lease.until_tick,
         renewed    = pgid.clock()
   WHERE l.shard = renew_lease.shard;
END
$$;

-- Give a lease back. Nobody gets the rest of its window: the shard is granted again
-- once that is over. True if it was held by this fence, false if it was not any more.
-- Errors: 22004 null, 22023 shard out of range.
CREATE FUNCTION pgid.release_lease(shard integer, fence bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM pgid.require_shard_number(shard);
  UPDATE pgid.lease AS l
     SET holder = NULL
   WHERE l.shard = release_lease.shard
     AND l.fence = release_lease.fence
     AND l.holder IS NOT NULL;
  RETURN FOUND;
END
$$;

-- Lock a lease's row against other grants, and return the end of its window.
-- Errors: 22004 null shard, 22023 shard out of range, ID007 the lease is lost.
CREATE FUNCTION pgid.hold_lease(shard integer, fence bigint)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  lease pgid.lease;
BEGIN
  PERFORM pgid.require_shard_number(shard);
  SELECT l.* INTO lease
    FROM pgid.lease AS l
   WHERE l.shard = hold_lease.shard
     FOR UPDATE;
  IF (lease.fence = hold_lease.fence AND lease.holder IS NOT NULL) IS NOT TRUE THEN
    RAISE EXCEPTION 'the lease % of shard % is lost: %', fence, shard, CASE
        WHEN lease.shard IS NULL THEN 'the shard is in no pool'
        WHEN lease.fence IS NULL THEN 'it was never granted'
        WHEN lease.holder IS NULL THEN 'it was given back'
        WHEN fence IS NULL THEN 'it has no number'
        ELSE format('%s has lease %s', lease.holder, lease.fence)
      END
      USING ERRCODE = 'ID007',
            HINT    = 'Acquire another. No ID of this one can come again.';
  END IF;
  RETURN lease.until_tick;
END
$$;

-- Take a window of a shard's ticks that ends at most about lead_ms past the clock.
-- Errors: ID001 clock behind the shard, ID002 no such shard, ID003 retired, ID004 time
-- exhausted, ID005 busy.
CREATE FUNCTION pgid.take_window(
  shard   integer,
  count   bigint,
  lead_ms integer,
  OUT from_tick  bigint,
  OUT until_tick bigint,
  OUT now_ms     bigint
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  -- What others drew of the shard by mistake may have put it a little further ahead.
  most_ms CONSTANT bigint := lead_ms::bigint + pgid.max_lead_ms() + pgid.max_wait_ms();
  ticks   record;
BEGIN
  PERFORM pgid.require_shard(shard); -- its row may say that it is retired where its base does not

  -- No window is granted twice, whatever became of the sequences.
  PERFORM pgid.raise_shard(l.shard, l.until_tick - 1)
     FROM pgid.lease AS l
    WHERE l.shard = take_window.shard
      AND l.until_tick - 1 > coalesce(pgid.last_tick(l.shard), -1);

  ticks := pgid.take_ticks(shard, count, most_ms);
  IF pgid.is_beyond(ticks.last, ticks.now_ms, most_ms) THEN
    PERFORM pgid.refuse_tick(shard, ticks.last, ticks.now_ms);
  END IF;
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  from_tick  := ticks.first;
  until_tick := ticks.last + 1;
  now_ms     := ticks.now_ms;
END
$$;

-- Errors: 22023 not 100 ms to an hour, 22004 null.
CREATE FUNCTION pgid.require_window(window_ms integer)
RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF (window_ms BETWEEN 100 AND 3600000) IS NOT TRUE THEN
    RAISE EXCEPTION 'window_ms % is out of range', coalesce(window_ms::text, 'null')
      USING ERRCODE = CASE WHEN window_ms IS NULL THEN '22004' ELSE '22023' END,
            HINT    = 'It is a number from 100 to 3600000: an hour.';
  END IF;
END
$$;

-- Errors: ID006 no shard of the pool is free, 22023 no such pool.
CREATE FUNCTION pgid.refuse_pool(pool text)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  shards  bigint;
  free_ms bigint; -- when the first window ends
BEGIN
  SELECT count(*), min(greatest(l.until_tick, pgid.last_tick(l.shard))) >> 10
    INTO shards, free_ms
    FROM pgid.lease AS l
   WHERE l.pool = refuse_pool.pool;
  IF shards = 0 THEN
    RAISE EXCEPTION 'there is no pool %', pool
      USING ERRCODE = '22023',
            HINT    = format('Create it as the owner of the schema pgid: SELECT pgid.create_pool(%L, 100, 115);', pool);
  END IF;
  RAISE EXCEPTION 'none of the % shards of pool % is free', shards, pool
    USING ERRCODE = 'ID006',
          HINT    = format('The first may be free in %s ms. Holders: SELECT * FROM pgid.lease_status;',
                           greatest(free_ms - pgid.now_ms(), 0));
END
$$;

-- One row a shard that is set apart:
--     state            held; expired: its window is over, anybody may have it; released:
--                      given back, but its window is not over; free
--     holder, fence    whose it is, and the number of the grant
--     lease_from, lease_until   the time of its window, which is the fence in ticks
--     granted, renewed when
CREATE VIEW pgid.lease_status AS
SELECT l.shard,
       l.pool,
       CASE
         WHEN pgid.is_retired(l.shard)                        THEN 'retired'
         WHEN l.until_tick > clock.now_ms << 10 AND l.holder IS NOT NULL THEN 'held'
         WHEN l.until_tick > clock.now_ms << 10               THEN 'released'
         WHEN l.holder IS NOT NULL                            THEN 'expired'
         ELSE 'free'
       END AS state,
       l.holder,
       l.fence,
       CASE WHEN l.fence IS NOT NULL THEN pgid.id_time(pgid.compose(l.from_tick, l.shard))  END AS lease_from,
       CASE WHEN l.fence IS NOT NULL THEN pgid.id_time(pgid.compose(l.until_tick, l.shard)) END AS lease_until,
       l.granted,
       l.renewed
  FROM pgid.lease AS l
 CROSS JOIN (SELECT pgid.now_ms() AS now_ms) AS clock;

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
    IF change.name = 'epoch_ms' THEN
      PERFORM setval('pgid.clock_high', unix_ms - epoch_ms); -- readings count from there now
    END IF;
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
--     pool                 of the leases that it is set apart for; NULL if it is not
CREATE OR REPLACE VIEW pgid.shard_status AS
SELECT s.shard,
       pgid.compose(last.tick, s.shard)               AS last_id,
       pgid.id_time(pgid.compose(last.tick, s.shard)) AS last_time,
       (last.tick >> 10) - clock.now_ms               AS lead_ms,
       CASE
         WHEN s.retired IS NOT NULL OR pgid.base(s.shard) >= pgid.retiring_base() THEN 0
         ELSE greatest(0, 1125899906842624 - greatest(last.tick + 1, clock.now_ms << 10))
       END                                            AS ids_left,
       s.created,
       s.retired,
       l.pool
  FROM pgid.shard AS s
  LEFT JOIN pgid.lease AS l ON l.shard = s.shard
 CROSS JOIN LATERAL (SELECT s.shard, pgid.now_ms() AS now_ms) AS clock
  -- A call that is refused at the end of time may have burnt a tick beyond it.
  LEFT JOIN LATERAL (
         SELECT least(drawn, 1125899906842623) AS tick
           FROM pgid.last_tick(s.shard) AS drawn
          WHERE drawn IS NOT NULL
       ) AS last ON true;

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

COMMENT ON FUNCTION pgid.advance_shard(integer, bigint) IS 'Raise a shard past an ID: true if it had to be raised';
COMMENT ON FUNCTION pgid.retire_shard(integer)          IS 'Stop a shard for good: its last ID';
COMMENT ON TABLE pgid.lease IS 'Shards set apart for leasing: see the view pgid.lease_status';
COMMENT ON VIEW pgid.lease_status IS
  'A row per shard set apart for leasing: its pool, state, holder, fence and window';
COMMENT ON FUNCTION pgid.create_pool(text, integer, integer)   IS 'Set shards apart for leasing: how many were added';
COMMENT ON FUNCTION pgid.acquire_lease(text, text, integer)    IS 'Grant any free shard of a pool, and a window of its ticks';
COMMENT ON FUNCTION pgid.renew_lease(integer, bigint, integer) IS 'Grant the holder of a lease a further window';
COMMENT ON FUNCTION pgid.release_lease(integer, bigint)        IS 'Give a lease back: true if it was still held';
COMMENT ON VIEW pgid.shard_status IS
  'A row per shard: last ID and time, lead over the clock, IDs left, created, retired, pool';
COMMENT ON VIEW pgid.stats IS
  'Waits, refusals and busy shards counted, and how often the clock went back';

-- All that is new is nobody's but the owner's, whatever default privileges have given.
DO $$
DECLARE
  added   regprocedure;
  grantee text;
BEGIN
  FOREACH added IN ARRAY ARRAY[
    'pgid.retiring_base()',
    'pgid.retired_base()',
    'pgid.require_readable(regclass,bigint)',
    'pgid.read_sequence(regclass,bigint)',
    'pgid.base(integer)',
    'pgid.drawn(integer)',
    'pgid.is_retired(integer)',
    'pgid.refuse_retired(integer)',
    'pgid.lock_shard(integer)',
    'pgid.raise_past(integer, bigint)',
    'pgid.advance_shard(integer, bigint)',
    'pgid.retire_shard(integer)',
    'pgid.mid_lead()',
    'pgid.is_beyond(bigint, bigint, bigint)',
    'pgid.refuse_tick(integer, bigint, bigint)',
    'pgid.take_ticks(integer, bigint, bigint)',
    'pgid.create_pool(text, integer, integer)',
    'pgid.require_pool_name(text)',
    'pgid.acquire_lease(text, text, integer)',
    'pgid.renew_lease(integer, bigint, integer)',
    'pgid.release_lease(integer, bigint)',
    'pgid.hold_lease(integer, bigint)',
    'pgid.take_window(integer, bigint, integer)',
    'pgid.require_window(integer)',
    'pgid.refuse_pool(text)',
    'pgid.keep_high(bigint)',
    'pgid.note_step()'
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
  PERFORM pgid.close_to_others('pgid.lease_fence');
  PERFORM pgid.close_to_others('pgid.lease');
  PERFORM pgid.close_to_others('pgid.lease_status');
  PERFORM pgid.close_to_others('pgid.count_waits');
  PERFORM pgid.close_to_others('pgid.count_refusals');
  PERFORM pgid.close_to_others('pgid.count_busy');
  PERFORM pgid.close_to_others('pgid.count_steps');
  PERFORM pgid.close_to_others('pgid.clock_high');
  PERFORM pgid.close_to_others('pgid.stats');
END
$$;

-- The search_path that was set aside.
DO $$
BEGIN
  PERFORM pg_catalog.set_config('search_path', pg_catalog.current_setting('pgid.caller_path'), true);
END
$$;
