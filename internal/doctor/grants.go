package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// delegated are calls that an owner may well grant to the roles that need them.
var delegated = []string{
	"pgid.acquire_lease(text,text,integer)", "pgid.renew_lease(integer,bigint,integer)", "pgid.release_lease(integer,bigint)",
}

// operations are calls of the owner that are granted to others only on purpose.
var operations = []string{
	"pgid.create_shard(integer,bigint)", "pgid.create_shards(integer,integer)", "pgid.create_pool(text,integer,integer)",
	"pgid.advance_shard(integer,bigint)", "pgid.retire_shard(integer)", "pgid.configure(integer,integer,bigint)",
}

func grantExecute(function string) string {
	return fmt.Sprintf("GRANT EXECUTE ON FUNCTION %s TO PUBLIC;", function)
}

// A grant is a right that somebody else than the owner has on an object.
type grant struct {
	Kind      string // SCHEMA, FUNCTION, SEQUENCE or TABLE
	Object    string
	Grantee   string // "" for PUBLIC
	Privilege string
}

func (g grant) to() string {
	if g.Grantee == "" {
		return "PUBLIC"
	}
	return ident(g.Grantee)
}

// who is the grantee as a sentence starts with it.
func (g grant) who() string {
	if g.Grantee == "" {
		return "everybody"
	}
	return g.to()
}

func (g grant) revoke() string {
	return fmt.Sprintf("REVOKE %s ON %s %s FROM %s;", g.Privilege, g.Kind, g.Object, g.to())
}

// checkGrants finds what others may not do and should, as after pg_restore --no-acl, and
// what they may do and should not.
func (e *exam) checkGrants(ctx context.Context) error {
	want, err := installed()
	if err != nil {
		return err
	}
	grants, err := collect[grant](ctx, e, `
		SELECT o.kind, o.name, CASE WHEN acl.grantee = 0 THEN '' ELSE pg_get_userbyid(acl.grantee)::text END, acl.privilege_type
		  FROM pg_namespace AS n
		 CROSS JOIN LATERAL (
		         SELECT 'SCHEMA', 'pgid', n.nspowner, coalesce(n.nspacl, acldefault('n', n.nspowner))
		          UNION ALL
		         SELECT 'FUNCTION', p.oid::regprocedure::text, p.proowner, coalesce(p.proacl, acldefault('f', p.proowner))
		           FROM pg_proc AS p
		          WHERE p.pronamespace = n.oid
		          UNION ALL
		         SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass::text, c.relowner, c.relacl
		           FROM pg_class AS c
		          WHERE c.relnamespace = n.oid
		            AND c.relkind IN ('r', 'v', 'S')
		       ) AS o (kind, name, owner, acl)
		 CROSS JOIN aclexplode(o.acl) AS acl
		 WHERE n.nspname = 'pgid'
		   AND acl.grantee <> o.owner
		 ORDER BY 1, 2, 3, 4`)
	if err != nil {
		return err
	}
	standing, err := collect[definition](ctx, e, readDefinitions)
	if err != nil {
		return err
	}
	before := len(e.findings)
	if !mayUse(grants) && slices.ContainsFunc(grants, func(g grant) bool {
		return g.Grantee == "" && slices.Contains(operations, g.Object)
	}) {
		// Not one after the other: once everybody may use the schema, they may retire its shards.
		e.add(Error, restore(grantsName), "the rights are those of a restore without privileges: USAGE on the schema is not granted,"+
			" and with it everybody might call what is for the owner")
		return nil
	}
	e.addExcessiveCalls(grants, want)
	for _, g := range grants {
		e.addExcessiveGrant(g)
	}
	e.addLostGrants(grants, want, standing)
	if len(e.findings) == before {
		e.ok("everybody may call the public functions, and nobody else the others")
	}
	return nil
}

// mayUse reports whether everybody may use the schema.
func mayUse(grants []grant) bool {
	return slices.Contains(grants, grant{"SCHEMA", "pgid", "", "USAGE"})
}

func (e *exam) addLostGrants(grants []grant, want map[string]definition, standing []definition) {
	if !mayUse(grants) {
		e.add(Error, "GRANT USAGE ON SCHEMA pgid TO PUBLIC;", "nobody but the owner may call anything: USAGE on the schema is not granted")
	}
	lost := make(map[string]bool)
	for _, d := range standing {
		if want[d.Name].Public && !d.Public {
			lost[d.Name] = true
		}
	}
	if len(lost) > 0 {
		names := strings.Join(slices.Sorted(maps.Keys(lost)), ", ")
		e.add(Error, grantExecute(names), "not everybody may call %s", names)
	}
}

func (e *exam) addExcessiveGrant(g grant) {
	switch {
	case g.Kind == "SCHEMA" && g.Privilege == "CREATE":
		e.add(Error, g.revoke(), "%s may create objects in the schema pgid", g.who())
	case g.Kind == "SEQUENCE" && g.Privilege == "SELECT", g.Kind == "TABLE" && g.Privilege == "SELECT" && g.Grantee != "":
		// To watch it, without a part in it.
	case g.Kind == "SEQUENCE":
		e.add(Error, g.revoke(), "%s has %s on %s: no promise holds for a sequence that others set", g.who(), g.Privilege, g.Object)
	case g.Kind == "TABLE":
		e.add(Warning, g.revoke(), "%s has %s on %s", g.who(), g.Privilege, g.Object)
	}
}

// addExcessiveCalls notes what is granted of functions that are not for everybody: one
// finding for each grantee and kind.
func (e *exam) addExcessiveCalls(grants []grant, want map[string]definition) {
	type kind struct {
		severity Severity
		about    string
	}
	kindOf := func(g grant) (kind, bool) {
		d, known := want[g.Object]
		switch {
		case g.Kind != "FUNCTION" || !known || d.Public || slices.Contains(delegated, g.Object) && g.Grantee != "":
			return kind{}, false
		case !slices.Contains(operations, g.Object) && !slices.Contains(delegated, g.Object):
			return kind{Warning, "internal"}, true
		case g.Grantee == "":
			return kind{Error, "for the owner"}, true
		}
		return kind{Info, "for the owner"}, true
	}
	var seen []grant
	for _, g := range grants {
		k, excessive := kindOf(g)
		if !excessive || slices.ContainsFunc(seen, func(s grant) bool { other, _ := kindOf(s); return other == k && s.Grantee == g.Grantee }) {
			continue
		}
		seen = append(seen, g)
		var names []string
		for _, s := range grants {
			if other, _ := kindOf(s); other == k && s.Grantee == g.Grantee {
				names = append(names, s.Object)
			}
		}
		g.Object = strings.Join(names, ", ")
		e.add(k.severity, g.revoke(), "%s may call what is %s: %s", g.who(), k.about, g.Object)
	}
}
