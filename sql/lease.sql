-- Leases: for processes that make IDs by themselves, without a round trip each.
--
-- A shard that is set apart in a pool is leased to one holder at a time. What the
-- holder gets is a window of the shard's ticks, [from_tick, until_tick), taken from the
-- shard as any batch is: nobody else is ever given one of them, whatever any clock says
-- and however long the holder was frozen. It issues nothing at or past until_tick, and
-- renews the lease before that. The time of until_tick is also when the lease expires.
--
-- A later grant has a larger fence: a number by which other systems may tell a holder
-- of today from one of yesterday.

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

COMMENT ON TABLE pgid.lease IS 'Shards set apart for leasing: see the view pgid.lease_status';

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

COMMENT ON VIEW pgid.lease_status IS
  'A row per shard set apart for leasing: its pool, state, holder, fence and window';
COMMENT ON FUNCTION pgid.create_pool(text, integer, integer)   IS 'Set shards apart for leasing: how many were added';
COMMENT ON FUNCTION pgid.acquire_lease(text, text, integer)    IS 'Grant any free shard of a pool, and a window of its ticks';
COMMENT ON FUNCTION pgid.renew_lease(integer, bigint, integer) IS 'Grant the holder of a lease a further window';
COMMENT ON FUNCTION pgid.release_lease(integer, bigint)        IS 'Give a lease back: true if it was still held';
