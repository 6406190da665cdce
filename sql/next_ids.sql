-- Many IDs in one call: a range of consecutive ticks.
--
-- Under the shard's lock, base is raised by the length of the range, and the ticks
-- that it skips are the caller's. next_id goes on meanwhile, without the lock. What
-- it has drawn between our look at the counter and the raised base is below the
-- range if the raise left room for it (lag); otherwise somebody may have drawn what
-- we were about to take, and the range is left as a gap.

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
CREATE FUNCTION pgid.reserve_ticks(shard integer, count integer)
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

COMMENT ON FUNCTION pgid.next_ids(integer, integer) IS 'The next IDs of a shard, ascending, as many as asked for';
COMMENT ON FUNCTION pgid.reserve(integer, integer)  IS 'The first and the last of the next IDs of a shard';
