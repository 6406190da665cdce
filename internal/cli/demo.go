package cli

import (
	"github.com/spf13/cobra"

	"github.com/nextid/postgres-ids/internal/demo"
)

func (a *app) demo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show it at work: 200,000 rows from 8 sessions, checked",
		Long: `Install pgid in a temporary database, create four shards, write 200,000 rows from eight sessions at
once, and check every promise on the result. The database is removed at the end.

The server is that of --database-url or PGID_DATABASE_URL, where the role needs CREATEDB. Without
either, a throwaway server is started on this machine. DATABASE_URL and the PG* variables are
not used: they may name the database of an application.`,
		Example: `  pgid demo
  pgid demo --database-url postgres://me@localhost/postgres`,
		Args: none,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		server, err := a.ownServer()
		if err != nil {
			return err
		}
		return demo.Run(cmd.Context(), demo.Options{URL: server, Out: a.Stdout, Progress: a.progress()})
	}
	return cmd
}
