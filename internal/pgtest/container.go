package pgtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

const clockFile = "/tmp/pgid-clock"

type containerBackend struct {
	ctr     *testcontainers.DockerContainer
	version string
	address string
	steady  bool // it is not restarted
	down    bool // killed
}

// dockerAnswers reports whether there is a Docker daemon to talk to.
func dockerAnswers() error {
	if _, err := exec.LookPath("docker"); err != nil {
		return fmt.Errorf("docker is not installed")
	}
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	out, err := exec.CommandContext(ctx, "docker", "info", "--format", "{{.ServerVersion}}").CombinedOutput()
	if err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("the Docker daemon does not answer: %s", line)
	}
	return nil
}

// fitHost sets what testcontainers needs to know of this host and cannot find out.
var fitHost = sync.OnceFunc(func() {
	// Inside a container that has a daemon of its own, testcontainers takes the
	// daemon for the outer one, and dials the gateway.
	if _, unset := os.LookupEnv("TESTCONTAINERS_HOST_OVERRIDE"); !unset {
		_, inContainer := os.Stat("/.dockerenv")
		if inContainer == nil && hasBridge() {
			_ = os.Setenv("TESTCONTAINERS_HOST_OVERRIDE", "127.0.0.1")
		}
	}
	// Without its image the reaper cannot start. Tests clean up by themselves.
	if _, unset := os.LookupEnv("TESTCONTAINERS_RYUK_DISABLED"); !unset {
		image := testcontainers.ReaperDefaultImage //nolint:staticcheck // deprecated, but the one place that names the image
		if exec.Command("docker", "image", "inspect", image).Run() != nil {
			ctx, stop := context.WithTimeout(context.Background(), time.Minute)
			defer stop()
			if exec.CommandContext(ctx, "docker", "pull", "-q", image).Run() != nil {
				_ = os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
			}
		}
	}
})

// hasBridge reports whether the daemon is this host's, by its network.
func hasBridge() bool {
	_, err := net.InterfaceByName("docker0")
	return err == nil
}

func newContainer(opts options) (backend, error) {
	fitHost()
	ctx, stop := withTimeout()
	defer stop()
	version := os.Getenv("PGID_TEST_VERSION")
	if version == "" {
		version = "17"
	}
	image := "pgid-postgres:" + version
	// A minute when there is no image yet, else nothing.
	build := exec.CommandContext(ctx, filepath.Join(repository(), "scripts", "postgres-image.sh"), version)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("image %s: %w", image, err)
	}

	env := map[string]string{}
	if opts.fakeClock {
		env["PGID_PRELOAD"] = "/usr/$LIB/faketime/libfaketime.so.1"
		for k, v := range fakeClockEnv(clockFile) {
			env[k] = v
		}
	}
	ctr, err := testcontainers.Run(ctx, image,
		testcontainers.WithExposedPorts("5432/tcp"),
		testcontainers.WithEnv(env),
		testcontainers.WithFiles(testcontainers.ContainerFile{
			Reader: strings.NewReader(fakeOffset(0)), ContainerFilePath: clockFile, FileMode: 0o644,
		}),
		testcontainers.WithCmd("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=200"),
		testcontainers.WithLabels(map[string]string{"pgid.test": "server"}),
		testcontainers.WithWaitStrategyAndDeadline(2*time.Minute, ready()),
	)
	b := &containerBackend{ctr: ctr, version: version, steady: !opts.fakeClock}
	if err == nil {
		err = b.locate(ctx)
	}
	if err != nil {
		logs := ""
		if ctr != nil {
			logs = containerLog(ctx, ctr)
			_ = testcontainers.TerminateContainer(ctr, testcontainers.StopTimeout(0))
		}
		return nil, fmt.Errorf("container of %s: %w%s", image, err, logs)
	}
	return b, nil
}

func ready() wait.Strategy {
	return wait.ForAll(
		wait.ForLog("database system is ready to accept connections").WithStartupTimeout(2*time.Minute),
		wait.ForListeningPort("5432/tcp").WithStartupTimeout(2*time.Minute),
	)
}

func containerLog(ctx context.Context, ctr *testcontainers.DockerContainer) string {
	r, err := ctr.Logs(ctx)
	if err != nil {
		return ""
	}
	defer func() { _ = r.Close() }()
	buf := make([]byte, 4096)
	n, _ := r.Read(buf)
	return "\n" + string(buf[:n])
}

// locate finds the server's address. The published port goes through a proxy that costs more
// than PostgreSQL does, so a server whose container keeps its own address is reached by that,
// where it can be.
func (b *containerBackend) locate(ctx context.Context) (err error) {
	if b.address, err = b.ctr.PortEndpoint(ctx, "5432/tcp", ""); err != nil || !b.steady || !hasBridge() {
		return err
	}
	ip, err := b.ctr.ContainerIP(ctx)
	if err != nil || ip == "" {
		return err
	}
	own := net.JoinHostPort(ip, "5432")
	if conn, err := net.DialTimeout("tcp", own, time.Second); err == nil {
		_ = conn.Close()
		b.address = own
	}
	return nil
}

func (b *containerBackend) describe() string { return "a container of PostgreSQL " + b.version }

func (b *containerBackend) url() string {
	return "postgres://postgres@" + b.address + "/postgres?sslmode=disable"
}

func (b *containerBackend) shell(script string) (string, bool, error) {
	ctx, stop := withTimeout()
	defer stop()
	script = "PATH=$(ls -d /usr/lib/postgresql/*/bin):$PATH; export PGUSER=postgres PGHOST=127.0.0.1; " + script
	out, err := exec.CommandContext(ctx, "docker", "exec", b.ctr.GetContainerID(), "bash", "-o", "pipefail", "-c", script).CombinedOutput()
	return string(out), true, err
}

func (b *containerBackend) stop() error {
	return testcontainers.TerminateContainer(b.ctr, testcontainers.StopTimeout(0))
}

// repository is the root of this module's source.
func repository() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}
