// Command pgid installs and looks after pgid in a PostgreSQL database: migrations,
// shards, IDs and what is in them. «pgid --help» lists it all.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nextid/postgres-ids/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends the work in good order; a second one kills. Not at once:
	// timeout(1) and some supervisors signal a process and its group together.
	context.AfterFunc(ctx, func() {
		time.Sleep(500 * time.Millisecond)
		stop()
	})
	os.Exit(cli.Run(ctx, os.Args[1:], cli.Env{
		Stdin:  os.Stdin,
		Stdout: os.Stdout,
		Stderr: os.Stderr,
		Getenv: os.Getenv,
	}))
}
