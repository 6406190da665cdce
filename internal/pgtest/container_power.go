package pgtest

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

func (b *containerBackend) setClock(offset time.Duration) error {
	ctx, stop := withTimeout()
	defer stop()
	if b.down { // nobody reads it
		return b.ctr.CopyToContainer(ctx, []byte(fakeOffset(offset)), clockFile, 0o644)
	}
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
	// The server's fast shutdown is SIGINT; docker's stop would be the smart one,
	// which waits for clients.
	if err := b.end("INT"); err != nil {
		return err
	}
	return b.start()
}

func (b *containerBackend) kill() error { return b.end("KILL") }

// end sends a signal to the server, and waits until its container has ended.
func (b *containerBackend) end(signal string) error {
	ctx, stop := withTimeout()
	defer stop()
	for _, args := range [][]string{{"kill", "--signal=" + signal}, {"wait"}} {
		if err := docker(ctx, append(args, b.ctr.GetContainerID())...); err != nil {
			return err
		}
	}
	b.down = true
	return nil
}

func (b *containerBackend) start() error {
	ctx, stop := withTimeout()
	defer stop()
	if err := b.ctr.Start(ctx); err != nil {
		return err
	}
	b.down = false
	return b.locate(ctx)
}

func (b *containerBackend) log() (string, error) {
	ctx, stop := withTimeout()
	defer stop()
	out, err := exec.CommandContext(ctx, "docker", "logs", b.ctr.GetContainerID()).CombinedOutput()
	return string(out), err
}

func docker(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("docker %s: %w: %s", args[0], err, out)
	}
	return nil
}
