-- What becomes of a shard: raised past an ID it must not fall behind, and retired.

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

COMMENT ON FUNCTION pgid.advance_shard(integer, bigint) IS 'Raise a shard past an ID: true if it had to be raised';
COMMENT ON FUNCTION pgid.retire_shard(integer)          IS 'Stop a shard for good: its last ID';
