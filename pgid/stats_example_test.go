package pgid_test

import (
	"context"
	"encoding/json"
	"expvar"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nextid/postgres-ids/pgid"
)

// What an allocator has done, at /debug/vars of a service that imports expvar.
func ExampleAllocator_Stats_expvar() {
	pool, err := pgxpool.New(context.Background(), "postgres://app@localhost/app")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	allocator, err := pgid.NewAllocator(pgid.NewClient(pool), 5, pgid.AllocatorConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer allocator.Close()
	expvar.Publish("pgid_allocator", expvar.Func(func() any { return allocator.Stats() }))

	fmt.Println(expvar.Get("pgid_allocator"))
	// Output: {"handed_out":0,"dropped":0,"fetches":0,"failed_fetches":0,"waits":0}
}

// What the database counted, at /debug/vars. It is asked at each look, so with a time limit.
func ExampleClient_ServerStats() {
	pool, err := pgxpool.New(context.Background(), "postgres://owner@localhost/app")
	if err != nil {
		fmt.Println(err)
		return
	}
	client := pgid.NewClient(pool)
	expvar.Publish("pgid_server", expvar.Func(func() any {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		stats, err := client.ServerStats(ctx)
		if err != nil {
			return map[string]string{"error": err.Error()}
		}
		return stats
	}))
}

// A collector of Prometheus reads the same fields: Waits, Refusals, Busy and ClockSteps
// are counters, LeadMS of a shard is a gauge.
func ExampleShardStatus() {
	lead := int64(-120)
	text, err := json.Marshal(pgid.ShardStatus{Shard: 5, LeadMS: &lead, IDsLeft: 1 << 40, Created: time.UnixMilli(1767225600000).UTC()})
	fmt.Println(string(text), err)
	// Output: {"shard":5,"last_id":null,"last_time":null,"lead_ms":-120,"ids_left":1099511627776,"created":"2026-01-01T00:00:00Z","retired":null,"pool":null} <nil>
}
