package migrations_test

import (
	"context"
	"log"
	"os"

	"github.com/nextid/postgres-ids/migrations"
)

// At the start of a program: several at once all succeed, one of them applies.
func ExampleUp() {
	if err := migrations.Up(context.Background(), os.Getenv("DATABASE_URL")); err != nil {
		log.Fatal(err)
	}
}
