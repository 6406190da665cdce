-- Who may call what: nobody anything, but for the list below. Table, view and
-- sequences grant nothing to anybody by default, and stay so.

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgid FROM PUBLIC;

GRANT EXECUTE ON FUNCTION
  pgid.next_id(integer),
  pgid.next_id(),
  pgid.decode(bigint),
  pgid.id_time(bigint),
  pgid.id_shard(bigint),
  pgid.id_seq(bigint),
  pgid.make_id(timestamptz, integer, integer),
  pgid.min_id(timestamptz),
  pgid.max_id(timestamptz),
  pgid.settings(),
  -- called by those above in the caller's own name
  pgid.version(),
  pgid.epoch_ms(),
  pgid.max_lead_ms(),
  pgid.max_wait_ms(),
  pgid.time_ms(timestamptz),
  pgid.refuse_time(timestamptz),
  pgid.refuse_shard(integer),
  pgid.refuse_seq(integer)
TO PUBLIC;
