package pgid_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestImports holds the package to its promise: whoever imports it gets pgx, and
// nothing else, into the bargain.
func TestImports(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command to ask")
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	const own = "github.com/nextid/postgres-ids"
	modules := make(map[string]bool)
	for _, module := range strings.Fields(string(out)) {
		modules[module] = true
	}
	if !modules[own] || !modules["github.com/jackc/pgx/v5"] {
		t.Fatalf("go list shows the modules %v", modules)
	}
	for module := range modules {
		if module != own && !strings.HasPrefix(module, "github.com/jackc/") && !strings.HasPrefix(module, "golang.org/x/") {
			t.Errorf("the package depends on %s", module)
		}
	}
}
