-- Who may call what: nobody anything, but for the list below. What the installing
-- role's default privileges have given to others is taken back first; create_shard
-- does the same for the sequences that it makes. Run it by itself, in one transaction,
-- where a dump was restored without its privileges:  psql -1 -f sql/grants.sql

DO $$
DECLARE
  grantee text;
BEGIN
  FOR grantee IN
    SELECT 'PUBLIC'
     UNION
    SELECT quote_ident(r.rolname)
      FROM pg_proc AS p
     CROSS JOIN aclexplode(p.proacl) AS acl
      JOIN pg_roles AS r ON r.oid = acl.grantee AND r.oid <> p.proowner
     WHERE p.pronamespace = 'pgid'::regnamespace
     UNION
    SELECT quote_ident(r.rolname)
      FROM pg_namespace AS n
     CROSS JOIN aclexplode(n.nspacl) AS acl
      JOIN pg_roles AS r ON r.oid = acl.grantee AND r.oid <> n.nspowner
     WHERE n.nspname = 'pgid'
  LOOP
    EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgid FROM %s', grantee);
    EXECUTE format('REVOKE ALL ON SCHEMA pgid FROM %s', grantee);
  END LOOP;

  PERFORM pgid.close_to_others(oid::regclass)
     FROM pg_class
    WHERE relnamespace = 'pgid'::regnamespace
      AND relkind IN ('r', 'v', 'S');
END
$$;

GRANT USAGE ON SCHEMA pgid TO PUBLIC;

GRANT EXECUTE ON FUNCTION
  pgid.next_id(integer),
  pgid.next_id(),
  pgid.next_ids(integer, integer),
  pgid.reserve(integer, integer),
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

-- The search_path that schema.sql has set aside, if it has.
DO $$
BEGIN
  PERFORM pg_catalog.set_config('search_path',
    coalesce(pg_catalog.current_setting('pgid.caller_path', true), pg_catalog.current_setting('search_path')), true);
END
$$;
