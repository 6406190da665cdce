package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nextid/postgres-ids/pgid"
)

// memory is a database of one shard that reserves at once, by the law: what is
// measured on it is the Allocator, without the round trips. «pgid bench» measures it
// on PostgreSQL.
type memory struct {
	limits pgid.Limits

	mu   sync.Mutex
	last pgid.Tick
}

func (m *memory) QueryRow(ctx context.Context, _ string, args ...any) pgx.Row {
	var layout pgid.Layout
	if len(args) == 0 { // the settings
		return row{values: []any{
			pgid.SchemaVersion, pgid.TimeBits, pgid.ShardBits, pgid.SeqBits,
			layout.Epoch().UnixMilli(), m.limits.MaxLead.Milliseconds(), m.limits.MaxWait.Milliseconds(),
		}}
	}
	shard, n := pgid.Shard(args[0].(int32)), int(args[1].(int32))
	m.mu.Lock()
	first, wait, err := m.limits.NextN(m.last, time.Since(layout.Epoch()).Milliseconds(), n)
	if err == nil {
		m.last = first + pgid.Tick(n-1)
	}
	m.mu.Unlock()
	if err == nil && wait > 0 {
		err = pgid.SystemClock{}.Sleep(ctx, wait)
	}
	return row{[]any{first.ID(shard), (first + pgid.Tick(n-1)).ID(shard)}, err}
}

type row struct {
	values []any
	err    error
}

func (r row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	for i, d := range dest {
		switch d := d.(type) {
		case *int:
			*d = r.values[i].(int)
		case *int64:
			*d = r.values[i].(int64)
		case *pgid.ID:
			*d = r.values[i].(pgid.ID)
		default:
			return fmt.Errorf("column %d into %T", i, d)
		}
	}
	return nil
}
