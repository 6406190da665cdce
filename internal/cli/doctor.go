package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nextid/postgres-ids/internal/doctor"
)

// The exit codes of pgid doctor beside those of [Run].
const (
	exitWarnings exitCode = 3
	exitErrors   exitCode = 4
)

// An exitCode is how a command ends that has said on stdout why.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit status %d", int(c)) }

func (a *app) doctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what is wrong with pgid in one or several databases",
		Long: `Examine one database, or several against each other, and say what is wrong and how to mend it. It
only reads. Connect as the owner of the schema pgid: a role with less rights is told what was not
examined.

Each line has a mark: ✓ nothing wrong, · worth knowing, ! a warning, ✗ an error. An error means
that IDs are not issued, or that a promise does not hold. What a fix says is SQL for the database
that it stands under, a command, or what to do.

The exit code is 0 if all is well, 3 if the worst is a warning, 4 if it is an error; 1 if there
was nothing to examine. A database that cannot be reached is an error like the others.`,
		Example: `  pgid doctor
  pgid doctor --database-url postgres://owner@db1/app --database-url postgres://owner@db2/app
  pgid doctor --json | jq 'select(.severity == "error")'
  pgid doctor --definition 'pgid.next_id(integer)' | psql -X "$DATABASE_URL"
  pgid doctor --definition grants | psql -X "$DATABASE_URL"`,
		Args: none,
	}
	// Takes the place of the flag that all commands have.
	databases := cmd.Flags().StringArray("database-url", nil,
		"a database, as `URL` or keyword/value string; give one flag for each")
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object a finding and line")
	definition := cmd.Flags().String("definition", "", "print the SQL that puts a `function`, a view or the grants back")
	timeout := cmd.Flags().Duration("timeout", 10*time.Second, "how long one statement may take")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("definition") {
			source, err := doctor.Source(*definition)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(a.Stdout, source)
			return err
		}
		if *timeout < time.Millisecond {
			return fmt.Errorf("--timeout %s is out of range: use 1ms or more", *timeout)
		}
		return a.examine(cmd.Context(), *databases, *timeout, *asJSON)
	}
	return cmd
}

func (a *app) examine(ctx context.Context, databases []string, timeout time.Duration, asJSON bool) error {
	if len(databases) == 0 {
		named, err := a.database()
		if err != nil {
			return err
		}
		databases = []string{named}
	}
	for _, named := range databases {
		if named == "" {
			return errors.New("--database-url is empty: name a database, or leave the flag out for what the environment names")
		}
		if err := checkURL(named, "--database-url"); err != nil {
			return err
		}
	}
	findings := doctor.Examine(ctx, databases, doctor.Options{Timeout: timeout})
	if err := ctx.Err(); err != nil {
		return err
	}
	print := a.printFindings
	if asJSON {
		print = a.printFindingsJSON
	}
	if err := print(findings); err != nil {
		return err
	}
	switch doctor.Worst(findings) {
	case doctor.Warning:
		return exitWarnings
	case doctor.Error:
		return exitErrors
	}
	return nil
}

func (a *app) printFindingsJSON(findings []doctor.Finding) error {
	out := json.NewEncoder(a.Stdout)
	out.SetEscapeHTML(false) // it is SQL, for a terminal or a program
	for _, f := range findings {
		if err := out.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

var marks = map[doctor.Severity]string{doctor.OK: "✓", doctor.Info: "·", doctor.Warning: "!", doctor.Error: "✗"}

func (a *app) printFindings(findings []doctor.Finding) error {
	var text strings.Builder
	count := make(map[doctor.Severity]int)
	for i, f := range findings {
		count[f.Severity]++
		if i == 0 || f.Database != findings[i-1].Database {
			if i > 0 {
				text.WriteString("\n")
			}
			fmt.Fprintln(&text, f.Database)
		}
		fmt.Fprintf(&text, "  %s %-12s %s\n", marks[f.Severity], f.Check, f.What)
		if f.Fix != "" {
			fmt.Fprintf(&text, "    %-12s fix: %s\n", "", f.Fix)
		}
	}
	fmt.Fprintf(&text, "\n%s, %s\n", counted(count[doctor.Error], "error"), counted(count[doctor.Warning], "warning"))
	_, err := fmt.Fprint(a.Stdout, text.String())
	return err
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
