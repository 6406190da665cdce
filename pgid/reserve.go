package pgid

import (
	"context"
	"fmt"
	"iter"
	"math"
)

// A Range is a run of IDs of one shard with consecutive ticks. After the last
// sequence of a millisecond, 1023, comes the first of the next: between the numbers
// of these two IDs lie those of all other shards, which are not part of the range.
type Range struct {
	First, Last ID // both are part of it
}

// Len is the number of IDs in the range.
func (r Range) Len() int { return int(max(0, r.Last.Tick()-r.First.Tick()+1)) }

// All yields the IDs of the range, ascending.
func (r Range) All() iter.Seq[ID] {
	return func(yield func(ID) bool) {
		shard := r.First.Shard()
		for tick, last := r.First.Tick(), r.Last.Tick(); tick <= last; tick++ {
			if !yield(tick.ID(shard)) {
				return
			}
		}
	}
}

// check refuses a range that is not n IDs of the shard, as generation draws them.
func (r Range) check(shard Shard, n int) error {
	if r.First.Shard() != shard || r.Last.Shard() != shard || r.First < 0 || r.Len() != n {
		return fmt.Errorf("%w: %d to %d are not %d IDs of shard %d", ErrBadAnswer, r.First, r.Last, n, shard)
	}
	return nil
}

// reserveVersion is the version of the schema that brought pgid.reserve.
const reserveVersion = 2

// Reserve draws the next n IDs of a shard as a range: larger than every ID that the
// shard has ever issued, and with none of anybody else's between them. One round
// trip, one row, whatever n.
//
// It returns [ErrOutOfRange] for an n that is not 1 to 1024 times the database's
// max_lead in milliseconds; [ErrNotInstalled] if the database's schema is of version
// 1, which has no ranges; [ErrBadAnswer]; and what [Client.NextID] returns. In a
// transaction that is not yet committed, keep the range within it.
func (c *Client) Reserve(ctx context.Context, shard Shard, n int) (Range, error) {
	if err := shard.check(); err != nil {
		return Range{}, err
	}
	// The upper bound is the database's to know, and may change: this is only what
	// can never be right.
	if n < 1 || n > math.MaxInt32 {
		return Range{}, fmt.Errorf("%w: %d IDs at once: ask for 1 or more", ErrOutOfRange, n)
	}
	if err := c.requireReserve(ctx); err != nil {
		return Range{}, err
	}
	var r Range
	err := c.db.QueryRow(ctx, "SELECT first, last FROM pgid.reserve($1::integer, $2::integer)", int32(shard), int32(n)).
		Scan(&r.First, &r.Last)
	if err != nil {
		return Range{}, Error(err)
	}
	if err := r.check(shard, n); err != nil {
		return Range{}, err
	}
	return r, nil
}

// NextIDs draws the next n IDs of a shard, ascending, with consecutive ticks. It is
// Reserve, written out.
func (c *Client) NextIDs(ctx context.Context, shard Shard, n int) ([]ID, error) {
	r, err := c.Reserve(ctx, shard, n)
	if err != nil {
		return nil, err
	}
	ids := make([]ID, 0, n)
	for id := range r.All() {
		ids = append(ids, id)
	}
	return ids, nil
}

// requireReserve refuses a database whose schema is too old. One that was, when its
// settings were read, is asked again: it may have been migrated.
func (c *Client) requireReserve(ctx context.Context) error {
	s, err := c.Settings(ctx)
	if err == nil && s.Version < reserveVersion {
		s, err = c.Refresh(ctx)
	}
	if err != nil {
		return err
	}
	if s.Version < reserveVersion {
		return fmt.Errorf("%w: its schema has version %d, and ranges came with version %d: run «pgid migrate up»",
			ErrNotInstalled, s.Version, reserveVersion)
	}
	return nil
}
