package pgid

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// ServerStats are what a database counted since pgid was installed there: the view
// pgid.stats. The counts only grow, unless an owner sets them back.
type ServerStats struct {
	Waits      int64      `json:"waits"`       // calls that slept for the clock
	Refusals   int64      `json:"refusals"`    // calls refused with ErrClockBehind or ErrTimeExhausted
	Busy       int64      `json:"busy"`        // calls that gave up with ErrShardBusy
	ClockSteps int64      `json:"clock_steps"` // times that the server's clock was seen to go back
	ClockHigh  *time.Time `json:"clock_high"`  // the latest that it was seen to show since; nil for never
}

// ServerStats reads the counts of the client's database. The role needs the rights of
// the owner of the schema pgid, or SELECT on the view and on the sequences that it reads.
//
// It returns [ErrUnknownVersion] if the schema is older than version 3, which brought
// them, a *pgconn.PgError with SQLSTATE 42501 if the role has not the right, and what
// [Client.Refresh] returns.
func (c *Client) ServerStats(ctx context.Context) (ServerStats, error) {
	if err := c.requireVersion(ctx, 3); err != nil {
		return ServerStats{}, err
	}
	var s ServerStats
	err := c.db.QueryRow(ctx, "SELECT waits, refusals, busy, clock_steps, clock_high FROM pgid.stats").
		Scan(&s.Waits, &s.Refusals, &s.Busy, &s.ClockSteps, &s.ClockHigh)
	if err != nil {
		return ServerStats{}, statsError(err)
	}
	if s.ClockHigh != nil {
		*s.ClockHigh = s.ClockHigh.UTC()
	}
	return s, nil
}

// ShardStatus is a shard as an operator sees it: a row of the view pgid.shard_status.
type ShardStatus struct {
	Shard    Shard      `json:"shard"`
	LastID   *ID        `json:"last_id"`   // the last ID drawn; nil before the first
	LastTime *time.Time `json:"last_time"` // and its time
	LeadMS   *int64     `json:"lead_ms"`   // how far that is ahead of the server's clock; negative when behind
	IDsLeft  int64      `json:"ids_left"`  // how many IDs the shard can still issue
	Created  time.Time  `json:"created"`
	Retired  *time.Time `json:"retired"` // nil while the shard issues IDs
	Pool     *string    `json:"pool"`    // of the leases that it is set apart for; nil if it is not
}

// shardStatusQuery gives all shards in one row, which is all that a Querier can be asked
// for: as JSON, in which an ID is a string and a time one of RFC 3339.
const shardStatusQuery = `
SELECT coalesce(json_agg(json_build_object(
         'shard', s.shard, 'last_id', s.last_id::text, 'last_time', s.last_time, 'lead_ms', s.lead_ms,
         'ids_left', s.ids_left, 'created', s.created, 'retired', s.retired, 'pool', s.pool) ORDER BY s.shard), '[]')::text
  FROM pgid.shard_status AS s`

// ShardStatus reads the state of every shard of the client's database, in their order.
// It returns the errors of [Client.ServerStats], and needs the same rights.
//
// Its cost grows with the shards, and it locks two sequences for each: with thousands in
// one database it may meet the server's max_locks_per_transaction.
func (c *Client) ShardStatus(ctx context.Context) ([]ShardStatus, error) {
	if err := c.requireVersion(ctx, 3); err != nil {
		return nil, err
	}
	var text string
	if err := c.db.QueryRow(ctx, shardStatusQuery).Scan(&text); err != nil {
		return nil, statsError(err)
	}
	var shards []ShardStatus
	if err := json.Unmarshal([]byte(text), &shards); err != nil {
		return nil, fmt.Errorf("%w: the state of its shards: %w", ErrBadAnswer, err)
	}
	for i := range shards {
		s := &shards[i]
		s.Created = s.Created.UTC()
		for _, t := range []*time.Time{s.LastTime, s.Retired} {
			if t != nil {
				*t = t.UTC()
			}
		}
	}
	return shards, nil
}

// requireVersion refuses a schema that is older than version. It asks again before it
// does: the database may have been migrated meanwhile.
func (c *Client) requireVersion(ctx context.Context, version int) error {
	s, err := c.Settings(ctx)
	if err == nil && s.Version < version {
		s, err = c.Refresh(ctx)
	}
	if err == nil && s.Version < version {
		err = fmt.Errorf("%w: its schema has version %d, this needs %d: run «pgid migrate up»", ErrUnknownVersion, s.Version, version)
	}
	return err
}

func statsError(err error) error {
	return fmt.Errorf("pgid: read what the database says of itself: %w", err)
}
