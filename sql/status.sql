-- What an operator asks about shards.

-- One row a shard:
--     last_id, last_time   the last ID drawn and its time; NULL before the first
--     lead_ms              how far that is ahead of the clock; negative when behind it
--     ids_left             how many IDs the shard can still issue: ticks end at 2^50
--     created, retired     when; retired is NULL while the shard issues IDs
--     pool                 of the leases that it is set apart for; NULL if it is not
CREATE VIEW pgid.shard_status AS
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

COMMENT ON VIEW pgid.shard_status IS
  'A row per shard: last ID and time, lead over the clock, IDs left, created, retired, pool';
