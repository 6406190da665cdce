package pgid_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nextid/postgres-ids/pgid"
)

func ExampleClient() {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		pgid.Register(conn.TypeMap())
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	id, err := pgid.NewClient(pool).NextID(ctx, 5)
	switch {
	case errors.Is(err, pgid.ErrNoShard):
		log.Fatal("create it first: pgid shard create 5")
	case err != nil:
		log.Fatal(err)
	}
	fmt.Println(id, id.Time(), id.Shard(), id.Seq())
}
