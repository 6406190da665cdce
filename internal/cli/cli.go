// Package cli is the command pgid, apart from the process that it runs in: its
// arguments, streams and environment are given to [Run].
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Env is what a command sees of its process.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
}

// The exit codes of [Run].
const (
	exitOK          = 0
	exitError       = 1
	exitInterrupted = 130 // 128 + SIGINT, as shells have it
)

// app is one run of the command.
type app struct {
	Env
	databaseURL string // the flag --database-url
}

// Run runs pgid with the arguments after its name and returns its exit code. An
// error is one line on Stderr. When ctx ends, the command stops in good order.
func Run(ctx context.Context, args []string, env Env) int {
	a := &app{Env: env}
	root := a.root()
	root.SetArgs(shieldNegative(root, args))
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	err := root.ExecuteContext(ctx)
	var worst exitCode
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil:
		_, _ = fmt.Fprintln(env.Stderr, interruptedLine(err))
		return exitInterrupted
	case errors.As(err, &worst): // it has said all there is to say
		return int(worst)
	default:
		_, _ = fmt.Fprintln(env.Stderr, errorLine(err))
		return exitError
	}
}

func (a *app) root() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "pgid",
		Short: "Unique, time-ordered 64-bit IDs, made by PostgreSQL itself",
		Long: `pgid installs and looks after unique, time-ordered 64-bit IDs in a PostgreSQL database.

The database is named by --database-url, else by PGID_DATABASE_URL, else by DATABASE_URL,
else by PostgreSQL's own variables: PGHOST, PGPORT, PGDATABASE, PGUSER, PGSERVICE and so on.`,
		Example: `  export PGID_DATABASE_URL=postgres://me@localhost:5432/mydb
  pgid migrate up
  pgid shard create 0-15
  pgid next --shard 5 --count 3
  pgid decode 242904336634483712
  pgid demo
  pgid bench`,
		Version:                    version(),
		SilenceUsage:               true,
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2,
	},
		a.migrate(), a.shard(), a.pool(), a.doctor(), a.next(), a.decode(), a.demo(), a.bench())
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var bad *pflag.InvalidValueError
		if errors.As(err, &bad) {
			err = fmt.Errorf("--%s %q is not of type %s", bad.GetFlag().Name, bad.GetValue(), bad.GetFlag().Value.Type())
		}
		return fmt.Errorf("%w: see «%s --help»", err, cmd.CommandPath())
	})
	root.PersistentFlags().StringVar(&a.databaseURL, "database-url", "",
		"the database, as `URL` or keyword/value string (default: from the environment)")
	return root
}

// group makes a command of commands: alone it shows its help, and a word that is
// none of them is an error.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		cmd.SuggestionsMinimumDistance = 2
		hint := ""
		if args[0] == "version" && cmd.Version != "" {
			hint = "did you mean --version? "
		}
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = fmt.Sprintf("did you mean %s? ", strings.Join(near, " or "))
		}
		return fmt.Errorf("unknown command %q: %ssee «%s --help»", args[0], hint, cmd.CommandPath())
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// takesNumbers marks a command whose arguments are numbers: -1 is one, not a flag.
const takesNumbers = "takes-numbers"

const shield = "\x00" // no argument of a process can hold it

// shieldNegative keeps the flag parser off negative numbers, where a command takes
// numbers. The command reads its arguments through numbers.
func shieldNegative(root *cobra.Command, args []string) []string {
	// cobra completes an empty list from os.Args: never give it nil.
	shielded := append([]string{}, args...)
	cmd, _, err := root.Find(args)
	if err != nil || cmd.Annotations[takesNumbers] == "" {
		return shielded
	}
	negative := regexp.MustCompile(`^-[0-9]`)
	for i, arg := range shielded {
		if negative.MatchString(arg) {
			shielded[i] = shield + arg
		}
	}
	return shielded
}

func numbers(args []string) []string {
	plain := make([]string, len(args))
	for i, arg := range args {
		plain[i] = strings.TrimPrefix(arg, shield)
	}
	return plain
}

// isTerminal reports whether somebody watches w: progress is for them alone.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull) // a character device, too
	return err != nil || !os.SameFile(info, null)
}

// progress is where a command may write its progress; nil if nobody watches.
func (a *app) progress() io.Writer {
	if isTerminal(a.Stderr) {
		return a.Stderr
	}
	return nil
}
