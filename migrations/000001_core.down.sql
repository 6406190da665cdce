-- pgid 1, undone: nothing of it stays. IDs already stored stay as they are.
--
-- First what others may use, one by one: PostgreSQL refuses this step while a
-- column default, a view or a function outside the schema needs one of them.

DROP FUNCTION
  pgid.next_id(),
  pgid.next_id(integer),
  pgid.create_shard(integer, bigint),
  pgid.create_shards(integer, integer)
RESTRICT;

DROP VIEW pgid.shard_status RESTRICT;

DROP FUNCTION
  pgid.decode(bigint),
  pgid.make_id(timestamptz, integer, integer),
  pgid.min_id(timestamptz),
  pgid.max_id(timestamptz),
  pgid.id_time(bigint),
  pgid.settings()
RESTRICT;

-- Then the rest: shards, their sequences, and what only the above could see.
DROP SCHEMA pgid CASCADE;
