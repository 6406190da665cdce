package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5"
)

func parse(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("pgid: database URL: %w", err)
	}
	return config, nil
}

// withConn calls do with a connection of its own.
func withConn(ctx context.Context, url string, do func(context.Context, *pgx.Conn) error) error {
	config, err := parse(url)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("pgid: connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return do(ctx, conn)
}

// installedVersion asks the schema itself for its version: 0 if there is none.
func installedVersion(ctx context.Context, conn *pgx.Conn) (uint, error) {
	var present bool
	err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
		WHERE n.nspname = 'pgid' AND p.proname = 'version' AND p.pronargs = 0)`).Scan(&present)
	if err != nil {
		return 0, fmt.Errorf("pgid: look for the schema: %w", err)
	}
	var version uint
	if present {
		err = conn.QueryRow(ctx, "SELECT pgid.version()").Scan(&version)
		if err != nil {
			return 0, fmt.Errorf("pgid: read the schema's version: %w", err)
		}
	}
	return version, nil
}

// readRecord reads the record without creating it.
func readRecord(ctx context.Context, conn *pgx.Conn) (version int, dirty bool, err error) {
	var present bool
	err = conn.QueryRow(ctx, "SELECT to_regclass($1::text) IS NOT NULL", Table).Scan(&present)
	if err == nil && present {
		err = conn.QueryRow(ctx, "SELECT version, dirty FROM "+Table).Scan(&version, &dirty)
		if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
	}
	if err != nil {
		return 0, false, fmt.Errorf("pgid: read the migration record: %w", err)
	}
	return version, dirty, nil
}

// dropEmptyRecord removes the record's table if it records nothing, under the lock
// that golang-migrate takes for the same table.
func dropEmptyRecord(ctx context.Context, conn *pgx.Conn) error {
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var name, schema string
		if err := tx.QueryRow(ctx, "SELECT current_database(), current_schema()").Scan(&name, &schema); err != nil {
			return err
		}
		lock, err := database.GenerateAdvisoryLockId(name, schema, Table)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1::bigint)", lock); err != nil {
			return err
		}
		var present, empty bool
		if err := tx.QueryRow(ctx, "SELECT to_regclass($1::text) IS NOT NULL", Table).Scan(&present); err != nil || !present {
			return err
		}
		if err := tx.QueryRow(ctx, "SELECT NOT EXISTS (SELECT FROM "+Table+")").Scan(&empty); err != nil || !empty {
			return err
		}
		_, err = tx.Exec(ctx, "DROP TABLE "+Table)
		return err
	})
	if err != nil {
		return fmt.Errorf("pgid: remove the empty migration record: %w", err)
	}
	return nil
}
