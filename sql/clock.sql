-- The clock: the only place where the time is read.

-- The server's clock, now: not that of the start of the transaction.
CREATE FUNCTION pgid.clock()
RETURNS timestamptz
LANGUAGE sql VOLATILE
RETURN clock_timestamp();

-- The same in milliseconds since the epoch, floored. Negative before the epoch.
--
-- Exact to the millisecond boundary: date_part gives seconds as a double, good to
-- 0.24 us until 2106; times a million, the cast rounds it to the microsecond that
-- the clock showed, and the division is between integers. extract() is exact by
-- itself, as a numeric, and 0.2 us slower.
CREATE FUNCTION pgid.now_ms()
RETURNS bigint
LANGUAGE sql VOLATILE
RETURN (date_part('epoch', pgid.clock()) * 1000000)::bigint / 1000 - pgid.epoch_ms();
