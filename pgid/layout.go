package pgid

import (
	"fmt"
	"time"
)

// The widths of an ID's fields. They fill all 64 bits: the top time bit is the sign.
const (
	TimeBits  = 41
	ShardBits = 13
	SeqBits   = 10
)

// The ranges of an ID's fields.
const (
	MaxShard     Shard = 1<<ShardBits - 1            // 8191; shards start at 0
	MaxSeq       Seq   = 1<<SeqBits - 1              // 1023; sequences start at 0
	MaxTick      Tick  = 1<<(TimeBits-1+SeqBits) - 1 // 2^50 - 1: the last tick that is ever drawn
	minMilli     int64 = -1 << (TimeBits - 1)        // -2^40
	maxMilli     int64 = 1<<(TimeBits-1) - 1         // 2^40 - 1
	timeBit            = ShardBits + SeqBits         // where the time starts in an ID
	seqMask            = int64(MaxSeq)               // the sequence, in an ID and in a tick
	defaultEpoch       = int64(1767225600_000)       // 2026-01-01T00:00:00Z, in Unix milliseconds
)

// A Shard is the number of a logical shard, 0 to 8191 ([MaxShard]).
type Shard int32

// A Seq is the sequence of an ID within its millisecond, 0 to 1023 ([MaxSeq]).
type Seq int32

// A Tick is what a shard draws: an ID without its shard, (ms << 10) | seq, with ms
// in milliseconds since the epoch. A shard's ticks strictly increase.
type Tick int64

// tickAt is the first tick of a millisecond, counted from the epoch.
func tickAt(milli int64) Tick { return Tick(milli << SeqBits) }

// milli is the tick's millisecond, counted from the epoch; floored before it.
func (t Tick) milli() int64 { return int64(t) >> SeqBits }

// ID is the ID that a shard issues for the tick. The shard must be within its range.
func (t Tick) ID(shard Shard) ID {
	return ID(t.milli()<<timeBit | int64(shard)<<SeqBits | int64(t)&seqMask)
}

// Parts are the fields of an ID.
type Parts struct {
	Time  time.Time // to the millisecond, in UTC
	Shard Shard
	Seq   Seq
}

// A Layout says how times map to IDs: it holds the epoch from which their
// milliseconds count. The zero Layout has the default epoch,
// 2026-01-01T00:00:00Z; a [Client] reports that of its database.
//
// A Layout is a value, and safe for concurrent use.
type Layout struct {
	shift int64 // milliseconds from the default epoch to this one
}

// NewLayout returns the layout of an epoch, which must be a whole millisecond with
// a year from 1970 to 2070. It returns [ErrTimeRange] for any other.
func NewLayout(epoch time.Time) (Layout, error) {
	if y := epoch.UTC().Year(); y < 1970 || y > 2070 || epoch.Nanosecond()%int(time.Millisecond) != 0 {
		return Layout{}, fmt.Errorf("%w: epoch %s: use a whole millisecond of the years 1970 to 2070",
			ErrTimeRange, epoch.UTC().Format(time.RFC3339Nano))
	}
	return Layout{shift: epoch.UnixMilli() - defaultEpoch}, nil
}

// Epoch is the time from which IDs of this layout count, in UTC.
func (l Layout) Epoch() time.Time { return time.UnixMilli(l.epochMilli()).UTC() }

func (l Layout) epochMilli() int64 { return defaultEpoch + l.shift }

// milli is t in milliseconds since the epoch, floored. It does not check the range,
// but clamps what Unix milliseconds cannot hold.
func (l Layout) milli(t time.Time) int64 {
	const limit = 1 << 50 // seconds: beyond any ID, within UnixMilli
	switch s := t.Unix(); {
	case s > limit:
		return limit * 1000
	case s < -limit:
		return -limit * 1000
	}
	return t.UnixMilli() - l.epochMilli()
}

func (l Layout) checkedMilli(t time.Time) (int64, error) {
	ms := l.milli(t)
	if ms < minMilli || ms > maxMilli {
		return 0, fmt.Errorf("%w: %s: an ID holds %s to %s", ErrTimeRange, t.UTC().Format(time.RFC3339Nano),
			l.timeAt(minMilli).Format(time.RFC3339Nano), l.timeAt(maxMilli).Format(time.RFC3339Nano))
	}
	return ms, nil
}

func (l Layout) timeAt(milli int64) time.Time {
	return time.UnixMilli(l.epochMilli() + milli).UTC()
}

// Encode returns the ID of a time, shard and sequence, for back-filled rows. The
// time is floored to its millisecond. Encode draws nothing and promises nothing:
// two calls with the same arguments return the same ID. It is make_id in SQL.
//
// It returns [ErrTimeRange] for a time more than 2^40 ms before or 2^40-1 ms after
// the epoch, and [ErrOutOfRange] for a shard or sequence outside its range.
func (l Layout) Encode(t time.Time, shard Shard, seq Seq) (ID, error) {
	if err := shard.check(); err != nil {
		return 0, err
	}
	if seq < 0 || seq > MaxSeq {
		return 0, fmt.Errorf("%w: seq %d: a seq is a number from 0 to %d", ErrOutOfRange, seq, MaxSeq)
	}
	ms, err := l.checkedMilli(t)
	if err != nil {
		return 0, err
	}
	return (tickAt(ms) | Tick(seq)).ID(shard), nil
}

// Decode takes an ID apart. Every 64-bit integer is an ID, so it never fails.
func (l Layout) Decode(id ID) Parts {
	return Parts{Time: l.Time(id), Shard: id.Shard(), Seq: id.Seq()}
}

// Time is the time of an ID, to the millisecond, in UTC.
func (l Layout) Time(id ID) time.Time { return l.timeAt(int64(id) >> timeBit) }

// Min is the smallest ID of t's millisecond over all shards: the lower bound of a
// range scan. It is min_id in SQL. It returns [ErrTimeRange] as Encode does.
func (l Layout) Min(t time.Time) (ID, error) {
	ms, err := l.checkedMilli(t)
	if err != nil {
		return 0, err
	}
	return tickAt(ms).ID(0), nil
}

// Max is the largest ID of t's millisecond over all shards: the upper bound of a
// range scan. It is max_id in SQL. It returns [ErrTimeRange] as Encode does.
func (l Layout) Max(t time.Time) (ID, error) {
	ms, err := l.checkedMilli(t)
	if err != nil {
		return 0, err
	}
	return (tickAt(ms) | Tick(MaxSeq)).ID(MaxShard), nil
}

func (s Shard) check() error {
	if s < 0 || s > MaxShard {
		return fmt.Errorf("%w: shard %d: a shard is a number from 0 to %d", ErrOutOfRange, s, MaxShard)
	}
	return nil
}
