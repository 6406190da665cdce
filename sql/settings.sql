-- The settings of this installation.
--
-- Each is an immutable function, so that the planner folds it to a constant: a
-- setting costs nothing per call, and dump and restore carry it along. configure
-- (in configure.sql) changes them.

-- The version of these functions: the number of the migration that brought them.
CREATE FUNCTION pgid.version()
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 3;

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
