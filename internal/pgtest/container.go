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
		_, ownBridge := net.InterfaceByName("docker0")
		if inContainer == nil && ownBridge == nil {
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
	b := &containerBackend{ctr: ctr, version: version}
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

func (b *containerBackend) locate(ctx context.Context) error {
	address, err := b.ctr.PortEndpoint(ctx, "5432/tcp", "")
	b.address = address
	return err
}

func (b *containerBackend) describe() string { return "a container of PostgreSQL " + b.version }

func (b *containerBackend) url() string {
	return "postgres://postgres@" + b.address + "/postgres?sslmode=disable"
}

func (b *containerBackend) setClock(offset time.Duration) error {
	ctx, stop := withTimeout()
	defer stop()
	next := clockFile + ".next"
	if err := b.ctr.CopyToContainer(ctx, []byte(fakeOffset(offset)), next, 0o644); err != nil {
		return err
	}
	// Renamed, because a server process that finds the file empty ends, and takes the server along.
	status, _, err := b.ctr.Exec(ctx, []string{"mv", next, clockFile})
	if err == nil && status != 0 {
		err = fmt.Errorf("mv %s %s: exit status %d", next, clockFile, status)
	}
	return err
}

func (b *containerBackend) restart() error {
	ctx, stop := withTimeout()
	defer stop()
	// The server's fast shutdown is SIGINT; docker's stop would be the smart one,
	// which waits for clients.
	if out, err := exec.CommandContext(ctx, "docker", "kill", "--signal=INT", b.ctr.GetContainerID()).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if out, err := exec.CommandContext(ctx, "docker", "wait", b.ctr.GetContainerID()).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if err := b.ctr.Start(ctx); err != nil {
		return err
	}
	return b.locate(ctx)
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
