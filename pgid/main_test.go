package pgid_test

import (
	"os"
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }
