package pgid_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

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

func ExampleClient_NextIDs() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	// One round trip, whatever the number.
	ids, err := pgid.NewClient(pool).NextIDs(ctx, 5, 1000)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(ids), ids[0], ids[999])
}

func ExampleAllocator() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	allocator, err := pgid.NewAllocator(pgid.NewClient(pool), 5, pgid.AllocatorConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer allocator.Close()

	for range 1000 {
		id, err := allocator.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(id)
	}
	fmt.Printf("%+v\n", allocator.Stats())
}

func ExampleClient_AcquireLease() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	// The owner has set shards apart: SELECT pgid.create_pool('workers', 100, 115);
	lease, err := pgid.NewClient(pool).AcquireLease(ctx, "workers", pgid.LeaseConfig{Wait: true})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = lease.Release(ctx) }()

	for {
		id, err := lease.Next(ctx)
		switch {
		case errors.Is(err, pgid.ErrLeaseExpired): // the database is away for longer than the window
			time.Sleep(time.Second)
		case err != nil: // ErrLeaseLost: acquire another
			log.Fatal(err)
		default:
			fmt.Println(id, lease.Shard(), lease.Fence())
		}
	}
}
