package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nextid/postgres-ids/internal/display"
	"github.com/nextid/postgres-ids/pgid"
)

// A check is a promise held against what the sessions wrote.
type check struct {
	ok     bool
	what   string
	detail string
}

// found is how many rows broke a promise, for each promise that one reading of all
// rows decides.
type found struct {
	rows     int
	received int // the session received another ID for this row
	shard    int // the ID's shard is not the table's
	decoded  int // SQL and Go decode differently
	encoded  int // make_id or Encode does not give the ID back
	early    int // the ID's time is before the writing
	late     int // the ID's time is more than max_lead after it
}

// shardRows is what a table holds.
type shardRows struct {
	rows        int
	first, last pgid.ID
}

func (d *demo) check(ctx context.Context, conn *pgx.Conn, w *written) ([]check, []shardRows, error) {
	var rows, distinct int
	err := conn.QueryRow(ctx, "SELECT count(*), count(DISTINCT id) FROM "+allPhotos()+" AS photo").Scan(&rows, &distinct)
	if err != nil {
		return nil, nil, fmt.Errorf("count: %w", err)
	}
	shards, err := readShards(ctx, conn)
	if err != nil {
		return nil, nil, err
	}
	f, err := d.readAll(ctx, conn, w)
	if err != nil {
		return nil, nil, err
	}
	drawn, differ, err := d.compareGenerator(ctx, conn)
	if err != nil {
		return nil, nil, err
	}
	pairs, disorder := w.disorder()
	perShardRight := true
	for shard, s := range shards {
		perShardRight = perShardRight && s.rows == w.perShard[shard]
	}
	lead := d.settings.Limits.MaxLead.Milliseconds()
	return []check{
		{rows == distinct && rows == d.Rows, "no ID twice",
			fmt.Sprintf("%s rows in %d tables, %s distinct IDs", display.Count(rows), shardCount, display.Count(distinct))},
		{f.received == 0 && f.rows == w.rows() && perShardRight, "nothing lost",
			fmt.Sprintf("%s IDs received by the sessions, %s differ from the tables", display.Count(w.rows()), display.Count(f.received))},
		{f.shard == 0, "shard in the ID",
			fmt.Sprintf("%s IDs held against their table's shard, %s carry another", display.Count(f.rows), display.Count(f.shard))},
		{disorder == 0, "order",
			fmt.Sprintf("%s times a session received a shard's next ID, %s not larger", display.Count(pairs), display.Count(disorder))},
		{f.early == 0 && f.late == 0, "time",
			fmt.Sprintf("%s IDs, %s before the writing, %s more than %d ms after it", display.Count(f.rows), display.Count(f.early), display.Count(f.late), lead)},
		{f.decoded == 0, "decode",
			fmt.Sprintf("%s rows decoded in SQL and in Go, %s differ", display.Count(f.rows), display.Count(f.decoded))},
		{f.encoded == 0, "encode",
			fmt.Sprintf("%s rows encoded from their parts in SQL and in Go, %s differ", display.Count(f.rows), display.Count(f.encoded))},
		{differ == 0, "one law",
			fmt.Sprintf("Go's Generator, given the clock of %s SQL draws, drew %s other IDs", display.Count(drawn), display.Count(differ))},
	}, shards, nil
}

// disorder counts, over each session and shard, the pairs of IDs received one after
// the other, and those whose second is not larger.
func (w *written) disorder() (pairs, wrong int) {
	for _, s := range w.sessions {
		last := map[pgid.Shard]pgid.ID{}
		for _, r := range s.received {
			if before, ok := last[r.shard]; ok {
				pairs++
				if r.id <= before {
					wrong++
				}
			}
			last[r.shard] = r.id
		}
	}
	return pairs, wrong
}

func readShards(ctx context.Context, conn *pgx.Conn) ([]shardRows, error) {
	shards := make([]shardRows, shardCount)
	for i := range shards {
		s := &shards[i]
		err := conn.QueryRow(ctx, fmt.Sprintf("SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0) FROM pgid_demo.photo_%d", i)).
			Scan(&s.rows, &s.first, &s.last)
		if err != nil {
			return nil, fmt.Errorf("count: %w", err)
		}
	}
	return shards, nil
}

// readAll reads every row once and holds it against what its session received, and
// SQL's view of its ID against Go's.
func (d *demo) readAll(ctx context.Context, conn *pgx.Conn, w *written) (found, error) {
	var (
		f                            found
		id, again                    pgid.ID
		table, number, n, shard, seq int
		at                           time.Time
		layout                       = d.settings.Layout
		earliest                     = w.begin.Truncate(time.Millisecond)
		latest                       = w.end.Add(d.settings.Limits.MaxLead + time.Millisecond)
	)
	rows, _ := conn.Query(ctx, `
		SELECT photo.shard, photo.id, photo.session, photo.n, part."time", part.shard, part.seq,
		       pgid.make_id(part."time", part.shard, part.seq)
		  FROM `+allPhotos()+` AS photo
		 CROSS JOIN LATERAL pgid.decode(photo.id) AS part`)
	_, err := pgx.ForEachRow(rows, []any{&table, &id, &number, &n, &at, &shard, &seq, &again}, func() error {
		f.rows++
		parts := layout.Decode(id)
		if s := w.sessions[number-1]; n > len(s.received) || s.received[n-1] != (receipt{id, pgid.Shard(table)}) {
			f.received++
		}
		if int(parts.Shard) != table {
			f.shard++
		}
		if !parts.Time.Equal(at) || int(parts.Shard) != shard || int(parts.Seq) != seq {
			f.decoded++
		}
		if encoded, err := layout.Encode(parts.Time, parts.Shard, parts.Seq); err != nil || encoded != id || again != id {
			f.encoded++
		}
		if parts.Time.Before(earliest) {
			f.early++
		}
		if parts.Time.After(latest) {
			f.late++
		}
		return nil
	})
	if err != nil {
		return f, fmt.Errorf("read the rows: %w", err)
	}
	return f, nil
}

// still is a clock that stands.
type still struct{ time.Time }

func (c still) Now() time.Time                           { return c.Time }
func (still) Sleep(context.Context, time.Duration) error { return nil }

// compareGenerator draws IDs of shard 0 in SQL, between two readings of the clock
// each, and asks whether Go's Generator draws the same from the ID before and a
// reading between the two.
func (d *demo) compareGenerator(ctx context.Context, conn *pgx.Conn) (drawn, differ int, err error) {
	var (
		last, id      pgid.ID
		before, after time.Time
	)
	if err := conn.QueryRow(ctx, "SELECT pgid.next_id(0)").Scan(&last); err != nil {
		return 0, 0, err
	}
	rows, _ := conn.Query(ctx, "SELECT clock_timestamp(), pgid.next_id(0), clock_timestamp() FROM generate_series(1, 1000)")
	_, err = pgx.ForEachRow(rows, []any{&before, &id, &after}, func() error {
		reading := d.settings.Layout.Time(id)
		if reading.Before(before) {
			reading = before
		}
		if reading.After(after) {
			reading = after
		}
		g, err := pgid.NewGenerator(0, pgid.GeneratorConfig{Layout: d.settings.Layout, Limits: d.settings.Limits, Clock: still{reading}})
		if err != nil {
			return err
		}
		g.Advance(last)
		next, err := g.Next(ctx)
		drawn++
		if err != nil || next != id {
			differ++
		}
		last = id
		return nil
	})
	if err != nil {
		return 0, 0, fmt.Errorf("compare with the Generator: %w", err)
	}
	return drawn, differ, nil
}
