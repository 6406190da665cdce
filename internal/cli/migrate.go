package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/nextid/postgres-ids/migrations"
)

func (a *app) migrate() *cobra.Command {
	down := &cobra.Command{
		Use:   "down",
		Short: "Remove pgid from the database, shards and all",
		Long: `Remove the schema pgid, with its shards and what they remember, and the migration record: all steps
at once. Stored IDs stay. Refused while a column default or anything else still needs the schema.`,
		Example: `  pgid migrate down --yes --database-url postgres://owner@localhost/mydb`,
		Args:    none,
	}
	yes := down.Flags().Bool("yes", false, "do it also where there are shards")
	down.RunE = func(cmd *cobra.Command, _ []string) error { return a.migrateDown(cmd.Context(), *yes) }
	return group(&cobra.Command{
		Use:   "migrate",
		Short: "Install, upgrade and remove pgid in a database",
		Example: `  pgid migrate up
  pgid migrate version`,
	},
		&cobra.Command{
			Use:   "up",
			Short: "Bring the database to the latest version",
			Long: `Bring the database to the latest version, whichever it has, and print it. Safe to run by several
processes at once, and when there is nothing to do. The role needs CREATE on the database and on the first
schema of its search_path (public), and no superuser; where pgid stands, it must be the schema's owner.`,
			Example: `  pgid migrate up --database-url postgres://owner@localhost/mydb`,
			Args:    none,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return a.migrateUp(cmd.Context())
			},
		},
		down,
		&cobra.Command{
			Use:     "version",
			Short:   "Print the version that the database has: 0 for none",
			Example: `  test "$(pgid migrate version)" -ge 1`,
			Args:    none,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return a.migrateVersion(cmd.Context())
			},
		},
		&cobra.Command{
			Use:   "force VERSION",
			Short: "Set the recorded version, after an interrupted migration",
			Long: `Write a version, 0 for none, into the migration record and clear its dirty mark. It changes nothing
else: it is the way out when an interrupted migration left its record dirty. The error about that
names the version to force.`,
			Example:     `  pgid migrate force 1`,
			Annotations: map[string]string{takesNumbers: "yes"},
			Args:        exactly(1, "one version"),
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.migrateForce(cmd.Context(), numbers(args)[0])
			},
		},
	)
}

// none refuses arguments: cobra would call them unknown commands.
func none(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, and got %q: see «%s --help»", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return nil
}

// exactly asks for n arguments and says which.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return fmt.Errorf("%s takes %s: see «%s --help»", cmd.CommandPath(), what, cmd.CommandPath())
		}
		return nil
	}
}

const needToMigrate = "the role needs CREATE on the database and on the first schema of its search_path (public)," +
	" and to own the schema pgid where it stands"

func (a *app) migrateUp(ctx context.Context) error {
	url, err := a.database()
	if err != nil {
		return err
	}
	if err := migrations.Up(ctx, url); err != nil {
		return permissionError(err, needToMigrate)
	}
	version, err := migrations.Version(ctx, url)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "the schema pgid has version %d\n", version)
	return err
}

func (a *app) migrateDown(ctx context.Context, yes bool) error {
	url, err := a.database()
	if err != nil {
		return err
	}
	if !yes {
		if err := a.requireNoShards(ctx); err != nil {
			return err
		}
	}
	before, err := migrations.Version(ctx, url)
	if err == nil || errors.Is(err, migrations.ErrUnderWay) { // then Down waits for it
		err = migrations.Down(ctx, url)
	}
	if err != nil {
		return permissionError(err, needToMigrate)
	}
	outcome := "the schema pgid is removed"
	if before == 0 {
		outcome = "pgid is not installed: nothing to remove"
	}
	_, err = fmt.Fprintln(a.Stdout, outcome)
	return err
}

// requireNoShards refuses a database with shards. What they remember, retirements and the
// windows of leases included, is nowhere else.
func (a *app) requireNoShards(ctx context.Context) error {
	return a.withConn(ctx, func(conn *pgx.Conn) error {
		var shards int
		err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
			WHERE n.nspname = 'pgid' AND c.relname ~ '^base_[0-9]+$'`).Scan(&shards)
		if err == nil && shards > 0 {
			err = fmt.Errorf("%s would be removed with all that they remember, and one that is created again later starts"+
				" from the clock: add --yes to remove them", counted(shards, "shard"))
		}
		return err
	})
}

func (a *app) migrateVersion(ctx context.Context) error {
	url, err := a.database()
	if err != nil {
		return err
	}
	version, err := migrations.Version(ctx, url)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Stdout, version)
	return err
}

func (a *app) migrateForce(ctx context.Context, text string) error {
	latest, err := migrations.Latest()
	if err != nil {
		return err
	}
	version, err := strconv.ParseUint(text, 10, 31)
	if err != nil || uint(version) > latest {
		return fmt.Errorf("%q is not a version: use 0 to %d", text, latest)
	}
	url, err := a.database()
	if err != nil {
		return err
	}
	if err := migrations.Force(ctx, url, uint(version)); err != nil {
		return permissionError(err, needToMigrate)
	}
	note := ""
	if stands, err := migrations.Version(ctx, url); err == nil && stands != uint(version) {
		note = fmt.Sprintf(", but the schema has %d: «pgid migrate up» goes by the schema", stands)
	}
	_, err = fmt.Fprintf(a.Stdout, "the migration record says version %d%s\n", version, note)
	return err
}
