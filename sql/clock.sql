-- The clock: the only place where the time is read.

-- The server's clock, now: not that of the start of the transaction.
CREATE FUNCTION pgid.clock()
RETURNS timestamptz
LANGUAGE sql VOLATILE
RETURN clock_timestamp();

-- The same in milliseconds since the epoch, floored. Negative before the epoch.
--
-- tstzrange_subdiff, which PostgreSQL has for its range types, is the cheapest way to
-- make a number of a timestamp: the difference of two in seconds, as a double.
-- Exact to the millisecond boundary: the double is good to 0.24 us until 2106; times
-- a million, the cast rounds it to the microsecond that the clock showed, and the
-- division is between integers.
CREATE FUNCTION pgid.now_ms()
RETURNS bigint
LANGUAGE sql VOLATILE
RETURN (tstzrange_subdiff(pgid.clock(), timestamptz '1970-01-01 00:00:00+00') * 1000000)::bigint / 1000
     - pgid.epoch_ms();
