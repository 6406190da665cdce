package bench

import (
	"context"
	"fmt"

	"github.com/nextid/postgres-ids/internal/display"
)

// Insert measures the INSERT of many rows, with each kind of key as the primary key:
// the time, and the size of the table and of its index.
func Insert(ctx context.Context, url string, opts Options) (*Report, error) {
	r, err := start(ctx, "insert", url, opts, baseShards)
	if err != nil {
		return nil, err
	}
	defer r.close(ctx)
	return r.report, r.insert(ctx)
}

// A key is a kind of primary key, and how a row gets it.
type key struct {
	name   string
	column string // the type of the id, and its default
	ids    string // the query that makes the IDs; "" for the default
}

const rowTitle = "'the sea at sunrise'"

func (r *runner) keys() []key {
	keys := []key{
		{"identity", "bigint GENERATED ALWAYS AS IDENTITY", ""},
		{nextID, "bigint DEFAULT pgid.next_id(0)", ""},
		{nextIDs, "bigint DEFAULT pgid.next_id(0)", batches("0", min(batchSize, r.Rows), r.Rows).sql},
		{uuidV4, "uuid DEFAULT gen_random_uuid()", ""},
	}
	if r.hasUUIDv7() {
		keys = append(keys, key{uuidV7, "uuid DEFAULT uuidv7()", ""})
	}
	return keys
}

func (r *runner) insert(ctx context.Context) error {
	keys := r.keys()
	trials := make([]trial, len(keys))
	tables, indexes := make([][]float64, len(keys)), make([][]float64, len(keys))
	for i, k := range keys {
		trials[i] = trial{name: k.name, run: func(ctx context.Context) (float64, error) {
			took, table, index, err := r.fillTable(ctx, k)
			tables[i], indexes[i] = append(tables[i], table), append(indexes[i], index)
			return took, err
		}}
	}
	group := Group{
		Name: "insert_time", Title: fmt.Sprintf("INSERT of %s rows, one statement", display.Count(r.Rows)), Unit: "s", Better: less,
		Note: "next_ids: in INSERT ... SELECT, 50,000 a call. The others: the column's default.",
	}
	if err := r.measure(ctx, group, trials, "identity", uuidV4); err != nil {
		return err
	}
	for _, size := range []struct {
		group  Group
		values [][]float64
	}{
		{Group{Name: "insert_index", Title: "Size of the primary key's index", Unit: "MB", Better: less}, indexes},
		{Group{Name: "insert_table", Title: "Size of the table without it", Unit: "MB", Better: less}, tables},
	} {
		for i := range size.values {
			size.values[i] = size.values[i][1:] // without the round that warms up
		}
		size.group.fill(trials, size.values, "identity", uuidV4)
		r.report.add(size.group)
	}
	return nil
}

// fillTable fills a new table, and drops it. Sizes are in MB.
func (r *runner) fillTable(ctx context.Context, k key) (seconds, table, index float64, err error) {
	exec := func(sql string) {
		if err == nil {
			_, err = r.conn.Exec(ctx, sql)
		}
	}
	exec("DROP TABLE IF EXISTS pgid_bench.photo")
	exec("CREATE TABLE pgid_bench.photo (id " + k.column + " PRIMARY KEY, title text NOT NULL) WITH (autovacuum_enabled = off)")
	if err == nil {
		err = rest(ctx)
	}
	if err != nil {
		return 0, 0, 0, err
	}
	rows := fmt.Sprintf("INSERT INTO pgid_bench.photo (title) SELECT %s FROM generate_series(1, %d)", rowTitle, r.Rows)
	if k.ids != "" {
		rows = fmt.Sprintf("INSERT INTO pgid_bench.photo (id, title) SELECT id, %s FROM (%s LIMIT %d) AS drawn", rowTitle, k.ids, r.Rows)
	}
	took, err := r.timed(ctx, rows)
	if err != nil {
		return 0, 0, 0, err
	}
	err = r.conn.QueryRow(ctx, "SELECT pg_table_size('pgid_bench.photo') / 1e6::float8, pg_indexes_size('pgid_bench.photo') / 1e6::float8").
		Scan(&table, &index)
	exec("DROP TABLE pgid_bench.photo")
	return took.Seconds(), table, index, err
}
