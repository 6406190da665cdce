package demo

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/nextid/postgres-ids/internal/display"
	"github.com/nextid/postgres-ids/pgid"
)

const sampleRows = 6

// report prints what there is to see: some rows, the shards, the checks.
func (d *demo) report(ctx context.Context, conn *pgx.Conn, checks []check, shards []shardRows) error {
	samples, err := d.samples(ctx, conn)
	if err != nil {
		return err
	}
	perShard := display.NewTable("shard", "rows", "first ID", "last ID", "first time", "last time")
	for i, s := range shards {
		perShard.AppendRow(table.Row{
			i, display.Count(s.rows), s.first, s.last,
			d.settings.Layout.Time(s.first).Format("15:04:05.000"), d.settings.Layout.Time(s.last).Format("15:04:05.000"),
		})
	}
	_, _ = fmt.Fprintf(d.Out, "\nSome rows, by ID\n%s\n\nShards\n%s\n\nChecks\n", samples.Render(), perShard.Render())
	for _, c := range checks {
		verdict := "ok"
		if !c.ok {
			verdict = "FAILED"
		}
		_, _ = fmt.Fprintf(d.Out, "  %-8s%-17s%s\n", verdict, c.what, c.detail)
	}
	_, _ = fmt.Fprintln(d.Out)
	return nil
}

// samples are rows from all over the run, decoded.
func (d *demo) samples(ctx context.Context, conn *pgx.Conn) (table.Writer, error) {
	t := display.NewTable("table", "title", "session", "id", "time", "shard", "seq")
	var (
		inTable, inSession int
		title              string
		id                 pgid.ID
	)
	rows, _ := conn.Query(ctx, `
		SELECT shard, session, title, id
		  FROM (SELECT *, row_number() OVER (ORDER BY id) AS row FROM `+allPhotos()+` AS photo) AS numbered
		 WHERE row % $1 = 1
		 ORDER BY id
		 LIMIT $2`, max(2, d.Rows/sampleRows), sampleRows)
	_, err := pgx.ForEachRow(rows, []any{&inTable, &inSession, &title, &id}, func() error {
		parts := d.settings.Layout.Decode(id)
		t.AppendRow(table.Row{
			fmt.Sprintf("photo_%d", inTable), title, inSession,
			id, parts.Time.Format(display.TimeFormat), int(parts.Shard), int(parts.Seq),
		})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read some rows: %w", err)
	}
	return t, nil
}
