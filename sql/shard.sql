-- Shards: what one is made of, how a call finds it, and how it comes to be.
--
-- A shard keeps one number, its last tick, as the sum of two sequences:
--
--     pgid.counter_N   counts draws: only ever advanced, by nextval
--     pgid.base_N      only ever raised, by setval, under the shard's lock
--
-- next_id.sql says why two. A new shard's base is -1, so that its first tick can be
-- 0; one that was never set, as after a dump without data, is taken for -1 too. A
-- retired shard's base lies past every tick: see shard_life.sql.

CREATE TABLE pgid.shard (
  shard    integer     PRIMARY KEY CHECK (shard BETWEEN 0 AND 8191),
  created  timestamptz NOT NULL DEFAULT clock_timestamp(),
  retired  timestamptz,
  moved_to text -- the database that «pgid shard move» carried it to
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
CREATE FUNCTION pgid.last_tick(shard integer)
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
CREATE FUNCTION pgid.require_shard(shard integer)
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

-- Redefine the lookup to show the shards that exist.
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
CREATE FUNCTION pgid.refuse_if_busy(shard integer, tries integer)
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
-- Errors: ID003 retired, if its sequences are not there.
CREATE FUNCTION pgid.add_shard(shard integer, past bigint)
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
