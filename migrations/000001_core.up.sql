-- pgid 1: the ID, the shard, next_id.
-- Once released, this file does not change any more. The functions as they stand are in sql/.

-- The schema, and who may look into it.
--
-- Everything that pgid owns stands in this schema. Any role may call the public
-- functions by name; what each role may execute is listed in grants.sql.

-- While the objects are created, nothing but PostgreSQL's own operators, types and
-- functions is in view: they mean these for ever, whatever stands in the installing
-- role's search_path. The end of grants.sql gives it back. All of it must run in one
-- transaction, to which both settings belong.
DO $$
BEGIN
  PERFORM pg_catalog.set_config('pgid.caller_path', pg_catalog.current_setting('search_path'), true);
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
END
$$;

CREATE SCHEMA pgid;

COMMENT ON SCHEMA pgid IS
  'Unique, time-ordered 64-bit IDs: 41 bits of milliseconds, 13 of logical shard, 10 of sequence';

-- The settings of this installation.
--
-- Each is an immutable function, so that the planner folds it to a constant: a
-- setting costs nothing per call, and dump and restore carry it along. For an epoch
-- of your own, change epoch_ms before the first install, and never after.

-- The version of these functions: the number of the migration that brought them.
CREATE FUNCTION pgid.version()
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 1;

-- Where the time of an ID starts, in Unix milliseconds: 2026-01-01T00:00:00Z.
CREATE FUNCTION pgid.epoch_ms()
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 1767225600000;

-- How far a tick may lead the clock and still be issued at once, in milliseconds.
CREATE FUNCTION pgid.max_lead_ms()
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 100;

-- How long a call may wait for the clock beyond that before it is refused, in milliseconds.
CREATE FUNCTION pgid.max_wait_ms()
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 1000;

-- All of it in one row: what a client reads before it trusts an ID from here.
CREATE FUNCTION pgid.settings(
  OUT version     integer,
  OUT time_bits   integer,
  OUT shard_bits  integer,
  OUT seq_bits    integer,
  OUT epoch_ms    bigint,
  OUT max_lead_ms integer,
  OUT max_wait_ms integer
)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT pgid.version(), 41, 13, 10, pgid.epoch_ms(), pgid.max_lead_ms(), pgid.max_wait_ms();
END;

COMMENT ON FUNCTION pgid.settings() IS
  'Version, layout, epoch and limits of this installation';

-- The ID: how time, shard and sequence share 64 bits, and the way back.
--
--     id   = (ms << 23) | (shard << 10) | seq     ms: milliseconds since the epoch, signed 41 bits
--     tick = (ms << 10) | seq                     a shard's own counter: an ID without its shard
--
-- The top bit of ms is the sign of the bigint: IDs before the epoch are negative
-- and sort first, so bigint order is time order over the whole range.
--
-- Bodies in this form (RETURN, BEGIN ATOMIC) are parsed once, when the function is
-- created. No caller's search_path, operator or temporary object can change them,
-- and the planner inlines them into the expressions that call them.

-- The ID of a tick. Cost: inlined, five bit operations.
CREATE FUNCTION pgid.compose(tick bigint, shard integer)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ((tick >> 10) << 23) | (shard << 10)::bigint | (tick & 1023);

-- The tick of an ID: the inverse of compose, without the shard.
CREATE FUNCTION pgid.id_tick(id bigint)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ((id >> 23) << 10) | (id & 1023);

-- The millisecond of an ID, as a timestamp. Exact: a double holds a millisecond
-- of these years to 0.2 us, and to_timestamp rounds to whole microseconds.
CREATE FUNCTION pgid.id_time(id bigint)
RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN to_timestamp(((id >> 23) + pgid.epoch_ms())::double precision / 1000);

-- The logical shard of an ID, 0 to 8191. Masked after the shift, which is signed.
CREATE FUNCTION pgid.id_shard(id bigint)
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ((id >> 10) & 8191)::integer;

-- The sequence of an ID within its millisecond, 0 to 1023.
CREATE FUNCTION pgid.id_seq(id bigint)
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (id & 1023)::integer;

-- An ID taken apart. Every bigint is an ID of this layout, so this never fails.
CREATE FUNCTION pgid.decode(id bigint, OUT "time" timestamptz, OUT shard integer, OUT seq integer)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT pgid.id_time(id), pgid.id_shard(id), pgid.id_seq(id);
END;

-- Refusals, for use within an expression. They are declared immutable, which they are
-- as far as they return at all, so that the functions below stay inlinable. Each takes
-- the value that it refuses: so the planner cannot evaluate it ahead of the condition
-- that guards it, unless it has evaluated that first.

-- Errors: always 22008.
CREATE FUNCTION pgid.refuse_time("time" timestamptz)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RAISE EXCEPTION 'time % does not fit an ID', "time"
    USING ERRCODE = '22008',
          HINT    = format('An ID holds times from %s to %s.',
                      pgid.id_time((-9223372036854775808)::bigint), pgid.id_time(9223372036854775807));
END
$$;

-- Errors: always 22023.
CREATE FUNCTION pgid.refuse_shard(shard integer)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RAISE EXCEPTION 'shard % is out of range', shard
    USING ERRCODE = '22023',
          HINT    = 'A shard is a number from 0 to 8191.';
END
$$;

-- Errors: always 22023.
CREATE FUNCTION pgid.refuse_seq(seq integer)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RAISE EXCEPTION 'seq % is out of range', seq
    USING ERRCODE = '22023',
          HINT    = 'A seq is a number from 0 to 1023.';
END
$$;

-- Milliseconds since the epoch, floored (also before the epoch), checked.
-- Errors: 22008 outside -2^40 .. 2^40-1 ms, infinity included.
CREATE FUNCTION pgid.time_ms("time" timestamptz)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
  WHEN "time" < to_timestamp((pgid.epoch_ms() - 1099511627776)::double precision / 1000)
    OR "time" >= to_timestamp((pgid.epoch_ms() + 1099511627776)::double precision / 1000)
  THEN pgid.refuse_time("time") -- beyond 2^40 ms on either side
  ELSE floor(extract(epoch FROM "time" - timestamptz '1970-01-01 00:00:00+00') * 1000)::bigint - pgid.epoch_ms()
END;

-- The ID of a time, shard and seq: for back-filled rows. It draws nothing and
-- promises nothing: two calls with the same arguments give the same ID.
-- The time is floored to its millisecond. NULL for a NULL argument.
-- Errors: 22008 time, 22023 shard or seq out of range.
CREATE FUNCTION pgid.make_id("time" timestamptz, shard integer, seq integer)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
  WHEN shard NOT BETWEEN 0 AND 8191 THEN pgid.refuse_shard(shard)
  WHEN seq NOT BETWEEN 0 AND 1023 THEN pgid.refuse_seq(seq)
  ELSE (pgid.time_ms("time") << 23) | (shard << 10)::bigint | seq::bigint
END;

-- The smallest and the largest ID of a time's millisecond, over all shards: the
-- bounds of a range scan, as in  WHERE id >= pgid.min_id(now() - interval '1 day').
-- Errors: 22008 time out of range.
CREATE FUNCTION pgid.min_id("time" timestamptz)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN pgid.time_ms("time") << 23;

-- 8388607 is 2^23 - 1: the last shard and the last seq.
CREATE FUNCTION pgid.max_id("time" timestamptz)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (pgid.time_ms("time") << 23) | 8388607;

COMMENT ON FUNCTION pgid.decode(bigint)   IS 'The time, shard and seq of an ID';
COMMENT ON FUNCTION pgid.id_time(bigint)  IS 'The time of an ID, to the millisecond';
COMMENT ON FUNCTION pgid.id_shard(bigint) IS 'The logical shard of an ID, 0 to 8191';
COMMENT ON FUNCTION pgid.id_seq(bigint)   IS 'The sequence of an ID within its millisecond, 0 to 1023';
COMMENT ON FUNCTION pgid.make_id(timestamptz, integer, integer) IS 'The ID of a time, shard and seq, for back-filled rows';
COMMENT ON FUNCTION pgid.min_id(timestamptz) IS 'The smallest ID of a millisecond, over all shards';
COMMENT ON FUNCTION pgid.max_id(timestamptz) IS 'The largest ID of a millisecond, over all shards';

-- The clock: the only place where the time is read.

-- Milliseconds since the epoch by the server's clock, read now (not at the start
-- of the transaction). Negative before the epoch.
--
-- Exact to the millisecond boundary: date_part gives seconds as a double, good to
-- 0.24 us until 2106; times a million, the cast rounds it to the microsecond that
-- the clock showed, and the division is between integers. extract() is exact by
-- itself, as a numeric, and 0.2 us slower.
CREATE FUNCTION pgid.now_ms()
RETURNS bigint
LANGUAGE sql VOLATILE
RETURN (date_part('epoch', clock_timestamp()) * 1000000)::bigint / 1000 - pgid.epoch_ms();

-- Shards: what one is made of, how a call finds it, and how it comes to be.
--
-- A shard keeps one number, its last tick, as the sum of two sequences:
--
--     pgid.counter_N   counts draws: only ever advanced, by nextval
--     pgid.base_N      only ever raised, by setval, under the shard's lock
--
-- next_id.sql says why two. A new shard's base is -1, so that its first tick can be
-- 0; one that was never set, as after a dump without data, is taken for -1 too.

CREATE TABLE pgid.shard (
  shard   integer     PRIMARY KEY CHECK (shard BETWEEN 0 AND 8191),
  created timestamptz NOT NULL DEFAULT clock_timestamp(),
  retired timestamptz
);

COMMENT ON TABLE pgid.shard IS 'The shards of this database: see the view pgid.shard_status';

-- Stand-ins for the shards that do not exist between those that do. The base is
-- never set and so reads as NULL, which no tick equals.
CREATE SEQUENCE pgid.base_none;
CREATE SEQUENCE pgid.counter_none CYCLE;

-- The lookup: a shard's sequences by number, as a constant array. Looking a name
-- up costs 0.4 us each time, the array 0.04. These are the empty beginnings;
-- refresh_lookup redefines all three whenever shards are created.
CREATE FUNCTION pgid.sequences()
RETURNS regclass[]
LANGUAGE sql IMMUTABLE
RETURN ARRAY['pgid.base_none'::regclass, 'pgid.counter_none'::regclass];

-- These two: NULL for a shard outside the array's bounds.
CREATE FUNCTION pgid.base_sequence(shard integer)
RETURNS regclass
LANGUAGE sql IMMUTABLE
RETURN NULL::regclass;

CREATE FUNCTION pgid.counter_sequence(shard integer)
RETURNS regclass
LANGUAGE sql IMMUTABLE
RETURN NULL::regclass;

-- The key of a shard's advisory lock is this class and the shard's number.
-- 1885825380 is 'pgid' in ASCII.
CREATE FUNCTION pgid.lock_class()
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 1885825380;

-- A shard's last tick as it stands, NULL if it has drawn none. By name: this also
-- reads shards that the lookup no longer shows.
CREATE FUNCTION pgid.last_tick(shard integer)
RETURNS bigint
LANGUAGE sql VOLATILE
RETURN coalesce(pg_sequence_last_value(to_regclass('pgid.base_' || shard)), -1)
     + pg_sequence_last_value(to_regclass('pgid.counter_' || shard));

-- Refuse a shard that cannot issue IDs.
-- Errors: 22004 null, 22023 out of range, ID003 retired, ID002 not created.
--
-- Whether it exists is asked of the catalog, not of the table: a transaction whose
-- snapshot is older than the shard may use it all the same.
CREATE FUNCTION pgid.require_shard(shard integer)
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

-- Errors: 22004 null, 22023 not 0 to 8191.
CREATE FUNCTION pgid.require_shard_number(shard integer)
RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF shard IS NULL THEN
    RAISE EXCEPTION 'the shard is null'
      USING ERRCODE = '22004',
            HINT    = 'A shard is a number from 0 to 8191.';
  END IF;
  IF shard NOT BETWEEN 0 AND 8191 THEN
    PERFORM pgid.refuse_shard(shard);
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
CREATE FUNCTION pgid.refresh_lookup()
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
CREATE FUNCTION pgid.refuse_if_busy(shard integer, tries integer)
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
CREATE FUNCTION pgid.raise_shard(shard integer, tick bigint)
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

-- Take from everybody but its owner what default privileges have given on a relation.
CREATE FUNCTION pgid.close_to_others(relation regclass)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  grantee name;
BEGIN
  FOR grantee IN
    SELECT DISTINCT coalesce(r.rolname, 'public')
      FROM pg_class AS c
     CROSS JOIN aclexplode(c.relacl) AS acl
      LEFT JOIN pg_roles AS r ON r.oid = acl.grantee
     WHERE c.oid = relation
       AND acl.grantee <> c.relowner
  LOOP
    EXECUTE format('REVOKE ALL ON TABLE %s FROM %s', relation,
                   CASE WHEN grantee = 'public' THEN 'PUBLIC' ELSE quote_ident(grantee) END);
  END LOOP;
END
$$;

-- Create a shard's sequences, but not its place in the lookup. True if it was
-- created, false if it stands. In both cases its later IDs exceed `past`.
-- The caller holds the lock on pgid.shard, and refreshes the lookup.
CREATE FUNCTION pgid.add_shard(shard integer, past bigint)
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

-- Create a shard in this database. True if it was created, false if it stands.
-- Its later IDs exceed `past`, any shard's ID: for a shard that moves here, or
-- whose state was lost.
-- Errors: 22004 null shard, 22023 shard out of range, ID003 retired.
CREATE FUNCTION pgid.create_shard(shard integer, past bigint DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  created boolean;
BEGIN
  PERFORM pgid.require_shard_number(shard);
  LOCK TABLE pgid.shard IN SHARE ROW EXCLUSIVE MODE; -- one at a time: all redefine the same functions
  IF to_regclass('pgid.base_' || shard) IS NOT NULL THEN
    PERFORM pgid.require_shard(shard);
  END IF;
  created := pgid.add_shard(shard, past);
  IF created THEN
    PERFORM pgid.refresh_lookup();
  END IF;
  RETURN created;
END
$$;

-- Create all shards from `first` to `last`, both included, that do not stand yet.
-- Returns how many were created.
-- Errors: 22004 null, 22023 out of range, or first after last.
CREATE FUNCTION pgid.create_shards(first integer, last integer)
RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  created integer := 0;
BEGIN
  PERFORM pgid.require_shard_number(first);
  PERFORM pgid.require_shard_number(last);
  IF first > last THEN
    RAISE EXCEPTION 'first shard % is after last shard %', first, last
      USING ERRCODE = '22023',
            HINT    = format('Call pgid.create_shards(%s, %s).', last, first);
  END IF;
  LOCK TABLE pgid.shard IN SHARE ROW EXCLUSIVE MODE; -- one at a time: all redefine the same functions
  FOR shard IN first .. last LOOP
    IF pgid.add_shard(shard, NULL) THEN
      created := created + 1;
    END IF;
  END LOOP;
  IF created > 0 THEN
    PERFORM pgid.refresh_lookup();
  END IF;
  RETURN created;
END
$$;

COMMENT ON FUNCTION pgid.create_shard(integer, bigint)   IS 'Create a shard: true if created, false if it stands';
COMMENT ON FUNCTION pgid.create_shards(integer, integer) IS 'Create a range of shards: how many were created';

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

-- Steps 3 and 4: may this tick be issued as it is? True when its lead is 0 to
-- max_lead ms, it is within the format, and base has not moved. One reading of the
-- clock serves both ends of the lead: |x - half| <= half is 0 <= x <= 2 * half; the one
-- tick that this leaves out goes the slow way. Whether the clock or base is read first
-- does not matter: both are read after the draw. (2^50 is the end of ticks.)
CREATE FUNCTION pgid.is_issuable(tick bigint, base bigint, shard integer)
RETURNS boolean
LANGUAGE sql VOLATILE
RETURN abs(tick - (pgid.now_ms() << 10) - (pgid.max_lead_ms()::bigint * 512 + 511))
          <= pgid.max_lead_ms()::bigint * 512 + 511
   AND tick < 1125899906842624
   AND base = pgid.read_base(shard);

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
CREATE FUNCTION pgid.next_id(shard integer)
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

-- What an operator asks about shards.

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

-- Who may call what: nobody anything, but for the list below. What the installing
-- role's default privileges have given to others is taken back first; create_shard
-- does the same for the sequences that it makes.

DO $$
DECLARE
  grantee text;
BEGIN
  FOR grantee IN
    SELECT 'PUBLIC'
     UNION
    SELECT quote_ident(r.rolname)
      FROM pg_proc AS p
     CROSS JOIN aclexplode(p.proacl) AS acl
      JOIN pg_roles AS r ON r.oid = acl.grantee AND r.oid <> p.proowner
     WHERE p.pronamespace = 'pgid'::regnamespace
     UNION
    SELECT quote_ident(r.rolname)
      FROM pg_namespace AS n
     CROSS JOIN aclexplode(n.nspacl) AS acl
      JOIN pg_roles AS r ON r.oid = acl.grantee AND r.oid <> n.nspowner
     WHERE n.nspname = 'pgid'
  LOOP
    EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgid FROM %s', grantee);
    EXECUTE format('REVOKE ALL ON SCHEMA pgid FROM %s', grantee);
  END LOOP;

  PERFORM pgid.close_to_others(oid::regclass)
     FROM pg_class
    WHERE relnamespace = 'pgid'::regnamespace
      AND relkind IN ('r', 'v', 'S');
END
$$;

GRANT USAGE ON SCHEMA pgid TO PUBLIC;

GRANT EXECUTE ON FUNCTION
  pgid.next_id(integer),
  pgid.next_id(),
  pgid.decode(bigint),
  pgid.id_time(bigint),
  pgid.id_shard(bigint),
  pgid.id_seq(bigint),
  pgid.make_id(timestamptz, integer, integer),
  pgid.min_id(timestamptz),
  pgid.max_id(timestamptz),
  pgid.settings(),
  -- called by those above in the caller's own name
  pgid.version(),
  pgid.epoch_ms(),
  pgid.max_lead_ms(),
  pgid.max_wait_ms(),
  pgid.time_ms(timestamptz),
  pgid.refuse_time(timestamptz),
  pgid.refuse_shard(integer),
  pgid.refuse_seq(integer)
TO PUBLIC;

-- The search_path that schema.sql has set aside.
DO $$
BEGIN
  PERFORM pg_catalog.set_config('search_path', pg_catalog.current_setting('pgid.caller_path'), true);
END
$$;
