package doctor

import (
	"context"
	"fmt"
)

// checkOwners finds what is not the schema owner's: a function that runs with the
// rights of its owner does not reach what is another's.
func (e *exam) checkOwners(ctx context.Context) error {
	type row struct{ Kind, Name, Owner string }
	others, err := collect[row](ctx, e, `
		SELECT o.kind, o.name, pg_get_userbyid(o.owner)::text
		  FROM pg_namespace AS n
		 CROSS JOIN LATERAL (
		         SELECT 'FUNCTION', p.oid::regprocedure::text, p.proowner
		           FROM pg_proc AS p
		          WHERE p.pronamespace = n.oid
		          UNION ALL
		         SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, c.oid::regclass::text, c.relowner
		           FROM pg_class AS c
		          WHERE c.relnamespace = n.oid
		            AND c.relkind IN ('r', 'v', 'S')
		       ) AS o (kind, name, owner)
		 WHERE n.nspname = 'pgid'
		   AND o.owner <> n.nspowner
		 ORDER BY o.name`)
	if err != nil {
		return err
	}
	for _, o := range others {
		e.add(Error, fmt.Sprintf("ALTER %s %s OWNER TO %s;", o.Kind, o.Name, ident(e.schema.owner)),
			"%s belongs to %s, the schema to %s", o.Name, o.Owner, e.schema.owner)
	}
	if len(others) == 0 {
		e.ok("everything belongs to %s", e.schema.owner)
	}
	return nil
}
