package cli

import (
	"fmt"
	"runtime/debug"

	"github.com/nextid/postgres-ids/pgid"
)

// version says which pgid this is: of the module, of the schema, of Go.
func version() string {
	module, revision, goVersion := "unknown", "", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		goVersion = info.GoVersion
		if info.Main.Version != "" {
			module = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				revision = ", revision " + s.Value[:12]
			}
		}
	}
	return fmt.Sprintf("pgid %s%s, schema version %d, built with %s", module, revision, pgid.SchemaVersion, goVersion)
}
