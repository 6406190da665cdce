package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Install puts the programs of another major version of PostgreSQL on the host, and
// returns their directory. A container gets them from that version's image, this
// machine must have them: the test is skipped if it does not.
func (h *Host) Install(t testing.TB, version string) string {
	t.Helper()
	bin := filepath.Join("/usr/lib/postgresql", version, "bin")
	if h.ctr == nil {
		if _, err := os.Stat(filepath.Join(bin, "postgres")); err != nil || filepath.Clean(h.Bin) == bin {
			t.Skipf("pgtest: a second PostgreSQL is wanted beside %s, and %s is not there: run this test on a container", h.Bin, bin)
		}
		return bin
	}
	ctx, stop := withTimeout()
	defer stop()
	image := filepath.Join(repository(), "scripts", "postgres-image.sh")
	// The libraries that its programs need and this image lacks, or has in another
	// version, come along; those that are here stay.
	script := fmt.Sprintf(`%[3]s %[1]s && docker run --rm --entrypoint bash pgid-postgres:%[1]s -c '
cd /; tar -ch --exclude=bitcode --exclude="llvmjit*" usr/lib/postgresql/%[1]s usr/share/postgresql/%[1]s $(
  ldd usr/lib/postgresql/%[1]s/bin/* | grep -o "=> /[^ ]*" | cut -c 5- | sort -u)' |
docker exec -i %[2]s tar -x -C / --skip-old-files`, version, h.ctr.GetContainerID(), image)
	if out, err := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("pgtest: install PostgreSQL %s: %v: %s", version, err, out)
	}
	return bin
}
