package doctor

import (
	"context"
	"fmt"
)

type parameter struct {
	Name   string
	Value  string
	Source string
}

// promises are what a server without them cannot keep: DESIGN.md calls it G1 and G2.
var promises = map[string]string{
	"fsync": "after a crash of the machine the database may be damaged, and shards fall behind IDs of committed transactions:" +
		" only the clock keeps those from coming again",
	"full_page_writes": "after a crash of the machine the database may be damaged, and with it what a shard remembers",
	"synchronous_commit": "after a crash the last IDs of committed transactions may be forgotten:" +
		" only the clock keeps those from coming again",
}

// checkDurability looks for settings that weaken what a commit promises.
func (e *exam) checkDurability(ctx context.Context) error {
	parameters, err := collect[parameter](ctx, e, `
		SELECT name, setting, source
		  FROM pg_settings
		 WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')
		 ORDER BY name`)
	if err != nil {
		return err
	}
	assigned, err := e.assignments(ctx, "synchronous_commit")
	if err != nil {
		return err
	}
	e.addDurability(parameters, assigned)
	return nil
}

func (e *exam) addDurability(parameters []parameter, assigned []assignment) {
	before := len(e.findings)
	for _, p := range parameters {
		switch p.Source {
		case "database", "user", "database user", "global":
			continue // among the assignments
		}
		if p.Value == "off" {
			e.add(Warning, p.on(), "%s is off: %s", p.Name, promises[p.Name])
		}
	}
	for _, a := range assigned {
		if a.Value == "off" {
			e.add(Warning, a.reset("synchronous_commit"), "synchronous_commit is off for %s: %s", a, promises["synchronous_commit"])
		}
	}
	if len(e.findings) == before {
		e.ok("what is committed survives a crash")
	}
}

func (p parameter) on() string {
	switch p.Source {
	case "command line":
		return fmt.Sprintf("start the server without %s=off on its command line", p.Name)
	case "client", "session", "environment variable":
		return fmt.Sprintf("connect without %s=off in the URL, in PGOPTIONS or at the pooler", p.Name)
	}
	return fmt.Sprintf("ALTER SYSTEM SET %s = on; -- then SELECT pg_reload_conf();", p.Name)
}
