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

-- The ID of a tick: its milliseconds move 13 bits up, which is to add them 8191 times,
-- and the shard fills the gap. Cost: inlined, five operations; with shifts it is seven.
CREATE FUNCTION pgid.compose(tick bigint, shard integer)
RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN tick + (tick & -1024) * 8191 + shard * 1024;

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
