package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/nextid/postgres-ids/migrations"
)

const shardEach = "next_id, a shard each"

// Growth measures how cost grows: with the sessions at once, with the size of a
// batch, and with the shards of one database.
func Growth(ctx context.Context, url string, opts Options) (*Report, error) {
	r, err := start(ctx, "growth", url, opts, max(baseShards, opts.Sessions))
	if err != nil {
		return nil, err
	}
	defer r.close(ctx)
	for _, step := range []func(context.Context) error{r.bySessions, r.byBatch, r.startOver, r.byShards} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return r.report, nil
}

// upTo is the steps up to a largest one, which is the last of them.
func upTo(largest int, steps ...int) []int {
	var taken []int
	for _, s := range steps {
		if s < largest {
			taken = append(taken, s)
		}
	}
	return append(taken, largest)
}

func (r *runner) bySessions(ctx context.Context) error {
	var trials []trial
	for _, sessions := range upTo(r.Sessions, 1, 2, 4, 8, 16, 32, 64, 128) {
		n := max(1, 2*r.IDs/sessions)
		for _, p := range r.bigints() {
			trials = append(trials, r.together(p.name, sessions, sessions, same(each(p.call, n))))
		}
		trials = append(trials, r.together(shardEach, sessions, sessions,
			func(session int) source { return each(fmt.Sprintf("pgid.next_id(%d)", session), n) }))
	}
	return r.measure(ctx, Group{
		Name: "by_sessions", Title: "Sessions at once, on one shard but where it says otherwise", Unit: "IDs/s", Better: more, X: "sessions",
	}, trials, instagram, nextval)
}

func (r *runner) byBatch(ctx context.Context) error {
	trials := []trial{r.perID(nextval, 0, each(r.bigints()[0].call, r.IDs)), r.perID(nextID, 0, each("pgid.next_id(0)", r.IDs))}
	for _, size := range []int{1, 10, 100, 1000, 10_000, 50_000, 100_000} {
		// Ten thousand calls are enough to measure: small batches cost more an ID.
		trials = append(trials, r.perID(nextIDs, size, batched(size, max(size, min(r.IDs, 10_000*size)))))
	}
	return r.measure(ctx, Group{
		Name: "by_batch", Title: "IDs a call of next_ids", Unit: "us/ID", Better: less, X: "IDs a call",
	}, trials, nextval, nextID)
}

// startOver takes the schema away and brings it back, without shards.
func (r *runner) startOver(ctx context.Context) error {
	if err := migrations.Down(ctx, r.url); err != nil {
		return err
	}
	return migrations.Up(ctx, r.url)
}

// byShards grows a database. Each state of it exists once: what making it took is
// measured once, what it costs then in turn, as ever.
func (r *runner) byShards(ctx context.Context) error {
	var (
		created = Group{Name: "shards_creation", Title: "Creation of all shards so far, once", Unit: "s", Better: less, X: "shards"}
		size    = Group{Name: "shards_size", Title: "Size that all shards so far add to the database, once", Unit: "MB", Better: less, X: "shards"}
		made    time.Duration
		shards  int
	)
	database, catalog, err := r.sizes(ctx)
	if err != nil {
		return err
	}
	for _, n := range upTo(r.Shards, 1, 16, 256, 1024, 4096, 8192) {
		begin := time.Now()
		if err := r.createShards(ctx, shards, n); err != nil {
			return err
		}
		made += time.Since(begin)
		shards = n
		nowDatabase, nowCatalog, err := r.sizes(ctx)
		if err != nil {
			return err
		}
		created.once("create_shards", n, made.Seconds())
		size.once("database", n, nowDatabase-database)
		size.once("its catalog", n, nowCatalog-catalog)
		if err := r.shardsCost(ctx, n); err != nil {
			return err
		}
	}
	r.report.add(created)
	r.report.add(size)
	return nil
}

func (r *runner) shardsCost(ctx context.Context, shards int) error {
	var trials []trial
	for _, p := range r.bigints() {
		trials = append(trials, r.perID(p.name, shards, each(p.call, r.IDs)))
	}
	g := Group{Name: "shards_cost", Title: "One session, by shards of the database", Unit: "us/ID", Better: less, X: "shards"}
	if err := r.measure(ctx, g, trials, instagram, nextval); err != nil {
		return err
	}
	return r.firstCalls(ctx, shards)
}

// once adds what was measured once.
func (g *Group) once(name string, x int, value float64) {
	g.Series = append(g.Series, Series{Name: name, X: x, Spread: spreadOf([]float64{value})})
}

// sizes are those of the database and of its catalog, in MB.
func (r *runner) sizes(ctx context.Context) (database, catalog float64, err error) {
	err = r.conn.QueryRow(ctx, `
		SELECT pg_database_size(current_database()) / 1e6::float8,
		       (SELECT sum(pg_total_relation_size(oid)) FROM pg_class
		         WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r') / 1e6::float8`).
		Scan(&database, &catalog)
	return database, catalog, err
}
