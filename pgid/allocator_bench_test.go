package pgid_test

import (
	"context"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/pgid"
)

// BenchmarkAllocator: «unpaced» has a database that reserves at once and without end,
// so that Next itself is measured; «demand» is half of what a shard can give, with the
// time in Next alone; «ceiling» takes all that a shard can give, which is paced by
// the clock at 977 ns per ID.
func BenchmarkAllocator(b *testing.B) {
	unpaced := func(b *testing.B) *pgid.Allocator {
		db := newRangeDB()
		db.trip = 0
		db.limits.MaxLead = 365 * 24 * time.Hour
		return newAllocator(b, db, pgid.AllocatorConfig{MaxRange: 1 << 20})
	}
	b.Run("unpaced/single", func(b *testing.B) {
		a := unpaced(b)
		take(b, a, 1<<20) // until the ranges have grown
		b.ReportAllocs()
		for b.Loop() {
			if _, err := a.Next(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("unpaced/parallel", func(b *testing.B) {
		a := unpaced(b)
		take(b, a, 1<<20)
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if _, err := a.Next(context.Background()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
	b.Run("demand/single", func(b *testing.B) {
		a := newAllocator(b, newRangeDB(), pgid.AllocatorConfig{})
		b.ReportAllocs()
		const perMilli = 512
		var within time.Duration
		start := time.Now()
		for i := 0; i < b.N; i += perMilli {
			before := time.Now()
			for range perMilli {
				if _, err := a.Next(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
			within += time.Since(before)
			time.Sleep(time.Until(start.Add(time.Duration(i/perMilli) * ms)))
		}
		b.ReportMetric(float64(within)/float64(b.N), "ns/Next")
		b.ReportMetric(float64(a.Stats().Waits), "waits")
	})
	b.Run("ceiling/single", func(b *testing.B) {
		a := newAllocator(b, newRangeDB(), pgid.AllocatorConfig{})
		take(b, a, 300_000) // until the lead is used up
		b.ReportAllocs()
		start, n := time.Now(), 0
		for b.Loop() {
			if _, err := a.Next(context.Background()); err != nil {
				b.Fatal(err)
			}
			n++
		}
		b.ReportMetric(float64(n)/time.Since(start).Seconds(), "IDs/s")
	})
	b.Run("ceiling/parallel", func(b *testing.B) {
		a := newAllocator(b, newRangeDB(), pgid.AllocatorConfig{})
		take(b, a, 300_000)
		b.ReportAllocs()
		b.ResetTimer()
		start := time.Now()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if _, err := a.Next(context.Background()); err != nil {
					b.Error(err)
					return
				}
			}
		})
		b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "IDs/s")
	})
}
