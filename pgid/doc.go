// Package pgid generates, decodes and stores IDs that PostgreSQL makes itself:
// unique, strictly increasing per shard, and ordered by time.
//
// An ID is one signed 64-bit integer, a PostgreSQL bigint:
//
//	id = (ms << 23) | (shard << 10) | seq
//
//	ms     41 bits, signed: milliseconds since the epoch, -2^40 .. 2^40-1
//	shard  13 bits: the logical shard, 0 .. 8191
//	seq    10 bits: the sequence within the millisecond, 0 .. 1023
//
// A shard keeps one number, its last tick, where a tick is an ID without its
// shard: (ms << 10) | seq. One line makes every ID, in SQL and here:
//
//	next tick = max(last tick + 1, now << 10)
//
// so uniqueness and order never depend on the clock; the clock is a label. How
// far that label may lead the clock is bounded by [Limits].
//
// A batch of n takes n ticks from there on, and the lead of its last tick decides.
//
// Five things in this package make IDs:
//
//   - [Client] asks the database: one round trip for an ID, or for a [Range] of
//     them, with all guarantees.
//   - [Allocator] reserves ranges ahead and hands out their IDs one by one, in tens
//     of nanoseconds: unique, and in order among its own.
//   - [Lease] makes IDs of a shard that the database has leased to it, without asking
//     for each; a holder that was frozen or replaced cannot repeat an ID.
//   - [Generator] runs the same law in memory. It is the reference that the SQL
//     is tested against, and serves where one process owns a shard.
//   - [Layout.Encode] composes the ID of a given time, shard and sequence, for
//     back-filled rows.
//
// The schema that [Client] talks to is installed by package migrations, by the
// command pgid, or by sql/install.sql.
//
// This package imports pgx and nothing else outside the standard library.
package pgid
