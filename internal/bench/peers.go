package bench

import (
	"context"
	_ "embed"
	"fmt"
)

//go:embed instagram.sql
var instagramSQL string

// Instagram is the SQL that creates the function that Instagram published, as
// insta5.next_id().
func Instagram() string { return instagramSQL }

// The names of what is measured.
const (
	queryAlone = "the query alone" // the measuring query, without an ID
	nextval    = "nextval"
	instagram  = "instagram"
	nextID     = "next_id"
	nextIDs    = "next_ids"
	uuidV4     = "gen_random_uuid"
	uuidV7     = "uuidv7"
)

// setUp is what the peers need beside pgid.
const setUp = `
	CREATE SCHEMA pgid_bench;
	CREATE SEQUENCE pgid_bench.bare;
	CREATE TABLE pgid_bench.sink (id bigint NOT NULL) WITH (autovacuum_enabled = off);`

// A peer makes one ID a call.
type peer struct{ name, call string }

// peers are those that this server has.
func (r *runner) peers() []peer {
	all := []peer{
		{nextval, "nextval('pgid_bench.bare')"},
		{instagram, "insta5.next_id()"},
		{nextID, "pgid.next_id(0)"},
		{uuidV4, "gen_random_uuid()"},
	}
	if r.hasUUIDv7() {
		all = append(all, peer{uuidV7, "uuidv7()"})
	}
	return all
}

func (r *runner) hasUUIDv7() bool { return r.report.Server.Number >= 180000 }

// bigints are the peers whose IDs fit a bigint.
func (r *runner) bigints() []peer { return r.peers()[:3] }

// Every measuring query counts the rows of a subquery that makes the IDs in its
// target list, one a row; OFFSET 0 keeps the planner from rearranging it.
const counting = "SELECT count(id) FROM (%s OFFSET 0) AS drawn"

// A source is a query that makes IDs, and how many.
type source struct {
	sql string
	ids int
}

// each makes n IDs by n calls.
func each(call string, n int) source {
	return source{fmt.Sprintf("SELECT %s AS id FROM generate_series(1, %d) AS n", call, n), n}
}

const (
	batchSize  = 50_000 // of next_ids, where nothing else is said
	baseShards = 16     // of the database, where nothing else is said
)

// batched makes n IDs, or a few more, by calls of next_ids, on one shard after the
// other: a single shard gives 1,024 IDs a millisecond, and makes its callers wait
// beyond that, which would be measured instead of the cost.
func batched(size, n int) source {
	return batches(fmt.Sprintf("n %% %d", baseShards), min(size, n), n)
}

// batches makes n IDs, or a few more, by calls of next_ids on a shard.
func batches(shard string, size, n int) source {
	calls := (n + size - 1) / size
	return source{fmt.Sprintf("SELECT pgid.next_ids(%s, %d) AS id FROM generate_series(1, %d) AS n", shard, size, calls), calls * size}
}

// perID measures microseconds per ID in the first session.
func (r *runner) perID(name string, x int, from source) trial {
	return trial{name: name, x: x, run: func(ctx context.Context) (float64, error) {
		if err := rest(ctx); err != nil {
			return 0, err
		}
		took, err := r.timed(ctx, fmt.Sprintf(counting, from.sql))
		return micros(took, from.ids), err
	}}
}
