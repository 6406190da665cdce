package faults

import (
	"os"
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
)

func TestMain(m *testing.M) {
	if runChild() {
		os.Exit(0)
	}
	os.Exit(pgtest.Run(m))
}
