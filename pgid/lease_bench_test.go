package pgid_test

import (
	"context"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/pgid"
)

// BenchmarkLease: «unpaced» has limits that let the window be issued far ahead of the
// clock, so that Next itself is measured; «single» is paced by the clock at 977 ns per ID
// once the lead is used up.
func BenchmarkLease(b *testing.B) {
	unpaced := func(b *testing.B) *pgid.Lease {
		db := newLeaseDB()
		db.limits.MaxLead = 2 * time.Hour
		return acquire(b, db, pgid.LeaseConfig{Window: time.Hour}) // 3.7 billion IDs
	}
	b.Run("unpaced/single", func(b *testing.B) {
		l := unpaced(b)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.Next(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("unpaced/parallel", func(b *testing.B) {
		l := unpaced(b)
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if _, err := l.Next(context.Background()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
	b.Run("paced/single", func(b *testing.B) {
		l := acquire(b, newLeaseDB(), pgid.LeaseConfig{})
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.Next(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
