-- The functions and views of the schema pgid, each with a hash of what makes it what it
-- is, and whether everybody may call it. Equal on PostgreSQL 15 to 19. The text of a body
-- depends on search_path, DateStyle and TimeZone: see begin.
SELECT p.oid::regprocedure::text AS name,
       md5(concat_ws(E'\n', l.lanname, p.prokind, p.provolatile, p.prosecdef, p.proparallel, p.proisstrict, p.proleakproof,
                     p.proconfig, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
                     coalesce(pg_get_function_sqlbody(p.oid), p.prosrc))) AS hash,
       EXISTS (
         SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS acl
          WHERE acl.grantee = 0
            AND acl.privilege_type = 'EXECUTE'
       ) AS public
  FROM pg_proc AS p
  JOIN pg_language AS l ON l.oid = p.prolang
 WHERE p.pronamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = 'pgid')
 UNION ALL
SELECT c.oid::regclass::text, md5(pg_get_viewdef(c.oid)), false
  FROM pg_class AS c
 WHERE c.relnamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = 'pgid')
   AND c.relkind = 'v'
