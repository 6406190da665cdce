package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

func parse(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("pgid: database URL: %w", err)
	}
	// No prepared statements: they would not survive a pooler.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	return config, nil
}

// inTransaction calls do in a transaction on a connection of its own.
func inTransaction(ctx context.Context, url string, do func(context.Context, pgx.Tx) error) error {
	config, err := parse(url)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("pgid: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return do(ctx, tx) })
}

// The guard is an advisory lock that whoever changes the schema or the record holds
// from the first reading to the last writing. golang-migrate's own lock comes too late
// for that. Its class is that of the shards' locks, whose numbers start at 0.
const guardKey = "1885825380, -1"

// guarded calls do while it holds the guard, in a transaction that ends with it.
func guarded(ctx context.Context, url string, do func(context.Context, pgx.Tx) error) error {
	return inTransaction(ctx, url, func(ctx context.Context, tx pgx.Tx) error {
		// The transaction idles while golang-migrate works on another connection.
		_, err := tx.Exec(ctx, "SELECT set_config('idle_in_transaction_session_timeout', '0', true)")
		if err == nil {
			_, err = tx.Exec(ctx, "SELECT pg_advisory_xact_lock("+guardKey+")")
		}
		if err != nil {
			return fmt.Errorf("pgid: wait for other migrations: %w", err)
		}
		return do(ctx, tx)
	})
}

// tryGuard takes the guard if nobody holds it.
func tryGuard(ctx context.Context, tx pgx.Tx) (taken bool, err error) {
	err = tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock("+guardKey+")").Scan(&taken)
	if err != nil {
		return false, fmt.Errorf("pgid: look for other migrations: %w", err)
	}
	return taken, nil
}

// installedVersion asks the schema itself for its version: 0 if there is none.
func installedVersion(ctx context.Context, tx pgx.Tx) (uint, error) {
	var present bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
		WHERE n.nspname = 'pgid' AND p.proname = 'version' AND p.pronargs = 0)`).Scan(&present)
	if err != nil {
		return 0, fmt.Errorf("pgid: look for the schema: %w", err)
	}
	var version uint
	if present {
		err = tx.QueryRow(ctx, "SELECT pgid.version()").Scan(&version)
		if err != nil {
			return 0, fmt.Errorf("pgid: read the schema's version: %w", err)
		}
	}
	return version, nil
}

// requireRoom refuses a database in which there is no place for the record, or a schema
// pgid that is not ours. It returns the version that is installed.
func requireRoom(ctx context.Context, tx pgx.Tx) (installed uint, err error) {
	var path string
	var placed, foreign bool
	err = tx.QueryRow(ctx, `SELECT current_setting('search_path'), current_schema() IS NOT NULL,
		EXISTS (SELECT FROM pg_namespace WHERE nspname = 'pgid')`).Scan(&path, &placed, &foreign)
	if err != nil {
		return 0, fmt.Errorf("pgid: look for the schema: %w", err)
	}
	installed, err = installedVersion(ctx, tx)
	switch {
	case err != nil:
		return 0, err
	case !placed:
		return 0, fmt.Errorf("pgid: no schema of the search_path, %s, exists and may be used: create one for the migration record, or set another", path)
	case foreign && installed == 0:
		return 0, errors.New("pgid: there is a schema pgid that is another program's, or broken: it does not say its version." +
			" Give it another name, ALTER SCHEMA pgid RENAME TO other; or see «pgid doctor»")
	}
	return installed, nil
}

// requireOwner refuses a role that does not own the schema pgid, if there is one. Its
// functions run with the owner's rights, and could not use what another role had made.
func requireOwner(ctx context.Context, tx pgx.Tx) error {
	var owner, role string
	err := tx.QueryRow(ctx, "SELECT pg_get_userbyid(nspowner), current_user FROM pg_namespace WHERE nspname = 'pgid'").Scan(&owner, &role)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("pgid: look for the schema's owner: %w", err)
	case owner != role:
		return fmt.Errorf("pgid: the schema pgid belongs to %[1]s, not to %[2]s: migrate as %[1]s; a role that may become it adds role=%[1]s to the database URL", owner, role)
	}
	return nil
}

// readRecord reads the record without creating it. A role that may not read it sees none.
func readRecord(ctx context.Context, tx pgx.Tx) (version int, dirty bool, err error) {
	var present bool
	err = tx.QueryRow(ctx, "SELECT to_regclass($1::text) IS NOT NULL AND has_table_privilege($1::text, 'SELECT')", Table).Scan(&present)
	if err == nil && present {
		err = tx.QueryRow(ctx, "SELECT version, dirty FROM "+Table).Scan(&version, &dirty)
		if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
	}
	if err != nil {
		return 0, false, fmt.Errorf("pgid: read the migration record: %w", err)
	}
	return version, dirty, nil
}

// dropEmptyRecord removes the record's table if it records nothing.
func dropEmptyRecord(ctx context.Context, guard pgx.Tx) error {
	var present, used bool
	err := guard.QueryRow(ctx, "SELECT to_regclass($1::text) IS NOT NULL", Table).Scan(&present)
	if err == nil && present {
		err = guard.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+Table+")").Scan(&used)
	}
	if err == nil && present && !used {
		_, err = guard.Exec(ctx, "DROP TABLE "+Table)
	}
	if err != nil {
		return fmt.Errorf("pgid: remove the empty migration record: %w", err)
	}
	return nil
}
