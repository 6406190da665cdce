package faults

import (
	"fmt"
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
)

// pg_upgrade takes the sequences along, so that shards go on where they were, under the
// newer version's programs too.
func TestUpgradeFrom15(t *testing.T) {
	t.Parallel()
	host := pgtest.NewHost(t)
	if pgtest.Query[int](t, pgtest.NewEmpty(t), "SELECT current_setting('server_version_num')::integer / 10000") == 15 {
		t.Skip("the tests run on PostgreSQL 15: there is nothing to upgrade to")
	}
	old := host.Add(t, "old")
	old.Bin = host.Install(t, "15")
	old.Init(t, "--data-checksums") // the default of 18, and of no version before
	old.Start(t)
	old.Exec(t, "CREATE ROLE guest LOGIN")
	state := furnish(t, old.Create(t, "app"), "guest")
	old.Stop(t)

	upgraded := host.Add(t, "upgraded")
	upgraded.Init(t, "--data-checksums")
	upgraded.Shell(t, fmt.Sprintf(`mkdir %[1]s.upgrade && cd %[1]s.upgrade &&
{ pg_upgrade -b %[2]s -B %[3]s -d %[4]s -D %[1]s -U postgres >log || { cat log; false; }; }`,
		upgraded.Data, old.Bin, upgraded.Bin, old.Data))
	upgraded.Start(t)
	state.goesOn(t, upgraded.Open(t, "app"))
}
