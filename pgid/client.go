package pgid

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SchemaVersion is the version of the pgid schema that this package was made for:
// the number of the last migration.
const SchemaVersion = 3

// A Querier is what a [Client] needs of a database: a *pgxpool.Pool, *pgx.Conn or
// pgx.Tx is one.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Settings are what an installation of pgid says of itself.
type Settings struct {
	Version int    // of its schema: the number of its last migration
	Layout  Layout // its epoch
	Limits  Limits // how far its shards may lead the clock
}

// A Client gets IDs from a database. It reads the database's settings once, before
// the first ID. It is safe for concurrent use if its Querier is. Make one with
// [NewClient].
//
// It works in every query exec mode of pgx. Behind a pooler in transaction mode, use
// one that prepares nothing there: QueryExecModeExec or QueryExecModeSimpleProtocol.
type Client struct {
	db       Querier
	settings *atomic.Pointer[Settings] // shared by the clients that With makes
}

// NewClient returns a client of a database. It does not talk to it yet.
func NewClient(db Querier) *Client {
	return &Client{db: db, settings: new(atomic.Pointer[Settings])}
}

// With returns a client that talks through db, a connection or transaction to the
// same database, and shares what this one knows of its settings.
func (c *Client) With(db Querier) *Client { return &Client{db: db, settings: c.settings} }

// NextID draws the next ID of a shard: larger than every ID that the shard has ever
// issued. One round trip; the first call of a client makes two.
//
// It returns [ErrOutOfRange] for a shard that is not 0 to 8191, without asking the
// database; [ErrNoShard], [ErrShardRetired], [ErrClockBehind], [ErrTimeExhausted] and
// [ErrShardBusy] as the database finds; and what [Client.Settings] returns. An ID
// drawn in a transaction that rolls back is a gap, and is not issued again.
func (c *Client) NextID(ctx context.Context, shard Shard) (ID, error) {
	if err := shard.check(); err != nil {
		return 0, err
	}
	if _, err := c.Settings(ctx); err != nil {
		return 0, err
	}
	var id ID
	err := c.db.QueryRow(ctx, "SELECT pgid.next_id($1::integer)", int32(shard)).Scan(&id)
	if err != nil {
		return 0, Error(err)
	}
	return id, nil
}

// Settings are the settings of the client's database, read once and kept until
// Refresh.
//
// It returns [ErrNotInstalled] if the database has no pgid schema, and
// [ErrUnknownVersion] if it has one that this package does not know.
func (c *Client) Settings(ctx context.Context) (Settings, error) {
	if s := c.settings.Load(); s != nil {
		return *s, nil
	}
	return c.Refresh(ctx)
}

// Refresh reads the settings again, and returns them: an owner may change the limits
// (pgid.configure) while clients run. The database follows its present limits in any
// case; only what Settings says is out of date until then. It returns the errors of
// Settings, and then leaves what was known as it is.
func (c *Client) Refresh(ctx context.Context) (Settings, error) {
	s, err := readSettings(ctx, c.db)
	if err != nil {
		return Settings{}, err
	}
	c.settings.Store(&s)
	return s, nil
}

func readSettings(ctx context.Context, db Querier) (Settings, error) {
	var (
		version, timeBits, shardBits, seqBits int
		epochMilli, maxLead, maxWait          int64
	)
	err := db.QueryRow(ctx, "SELECT version, time_bits, shard_bits, seq_bits, epoch_ms, max_lead_ms, max_wait_ms FROM pgid.settings()").
		Scan(&version, &timeBits, &shardBits, &seqBits, &epochMilli, &maxLead, &maxWait)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && isMissing(pg):
		return Settings{}, notInstalled(err)
	case err != nil:
		return Settings{}, err
	case version < 1 || version > SchemaVersion:
		return Settings{}, fmt.Errorf("%w: its schema has version %d, this package knows 1 to %d: upgrade the older of the two",
			ErrUnknownVersion, version, SchemaVersion)
	case timeBits != TimeBits || shardBits != ShardBits || seqBits != SeqBits:
		return Settings{}, fmt.Errorf("%w: its IDs have %d + %d + %d bits, this package knows %d + %d + %d",
			ErrUnknownVersion, timeBits, shardBits, seqBits, TimeBits, ShardBits, SeqBits)
	}
	layout, err := NewLayout(time.UnixMilli(epochMilli))
	if err != nil {
		return Settings{}, fmt.Errorf("%w: %w", ErrUnknownVersion, err)
	}
	limits := Limits{
		MaxLead: time.Duration(maxLead) * time.Millisecond,
		MaxWait: time.Duration(maxWait) * time.Millisecond,
	}
	return Settings{Version: version, Layout: layout, Limits: limits}, nil
}
