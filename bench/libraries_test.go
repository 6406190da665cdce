package bench

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bwmarrin/snowflake"
	"github.com/google/uuid"
	"github.com/oklog/ulid/v2"
	"github.com/sony/sonyflake"

	"github.com/nextid/postgres-ids/pgid"
)

// A library makes IDs. Each call of new gives a generator that is safe for
// concurrent use.
type library struct {
	name  string
	limit float64 // the IDs a millisecond that its format allows for long; +Inf: none
	new   func(b *testing.B) func() error
}

// libraries as their users have them. Those with a sequence in the ID come to an end
// of it, and then wait for the clock: sony/sonyflake sleeps after 256 IDs in 10 ms,
// bwmarrin/snowflake spins after 4,096 in 1 ms, pgid sleeps after 1,024 a millisecond
// once it leads the clock by 100 ms. In a loop that does nothing but draw, that wait
// is what one measures: see BenchmarkCost for the rest.
var libraries = []library{
	{"pgid.Generator", 1024, func(b *testing.B) func() error { return generator(b, pgid.Limits{}) }},
	{"pgid.Allocator", 1024, func(b *testing.B) func() error { return allocator(b, pgid.DefaultLimits(), pgid.AllocatorConfig{}) }},
	{"bwmarrin_snowflake", 4096, func(b *testing.B) func() error {
		node, err := snowflake.NewNode(5)
		if err != nil {
			b.Fatal(err)
		}
		return func() error { node.Generate(); return nil }
	}},
	{"sony_sonyflake", 25.6, func(b *testing.B) func() error {
		s := newSonyflake(b)
		return func() error { _, err := s.NextID(); return err }
	}},
	{"google_uuid_v7", math.Inf(1), func(*testing.B) func() error {
		return func() error { _, err := uuid.NewV7(); return err }
	}},
	{"oklog_ulid", math.Inf(1), func(*testing.B) func() error {
		return func() error { ulid.Make(); return nil }
	}},
}

// withoutWait is the same code where it need not wait for the clock.
var withoutWait = map[string]func(b *testing.B) func() error{
	"pgid.Generator": func(b *testing.B) func() error { return generator(b, wide) },
	"pgid.Allocator": func(b *testing.B) func() error {
		return allocator(b, wide, pgid.AllocatorConfig{MaxRange: 1 << 20})
	},
	// 2^20 IDs a millisecond, in place of the bits of the node.
	"bwmarrin_snowflake": func(b *testing.B) func() error {
		nodeBits, stepBits := snowflake.NodeBits, snowflake.StepBits
		defer func() { snowflake.NodeBits, snowflake.StepBits = nodeBits, stepBits }()
		snowflake.NodeBits, snowflake.StepBits = 2, 20
		node, err := snowflake.NewNode(1)
		if err != nil {
			b.Fatal(err)
		}
		return func() error { node.Generate(); return nil }
	},
	// Its bits are constants: a fresh instance after each 256 IDs, before it sleeps.
	"sony_sonyflake": func(b *testing.B) func() error {
		type instance struct {
			*sonyflake.Sonyflake
			drawn atomic.Int32
		}
		var current atomic.Pointer[instance]
		current.Store(&instance{Sonyflake: newSonyflake(b)})
		return func() error {
			s := current.Load()
			if s.drawn.Add(1) > 250 {
				fresh := &instance{Sonyflake: newSonyflake(b)}
				fresh.drawn.Store(1)
				current.CompareAndSwap(s, fresh)
				s = fresh
			}
			_, err := s.NextID()
			return err
		}
	},
}

// wide limits let a shard lead the clock by all that a benchmark draws.
var wide = pgid.Limits{MaxLead: 365 * 24 * time.Hour}

func generator(b *testing.B, limits pgid.Limits) func() error {
	b.Helper()
	g, err := pgid.NewGenerator(5, pgid.GeneratorConfig{Limits: limits})
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	return func() error { _, err := g.Next(ctx); return err }
}

func allocator(b *testing.B, limits pgid.Limits, config pgid.AllocatorConfig) func() error {
	b.Helper()
	a, err := pgid.NewAllocator(pgid.NewClient(&memory{limits: limits}), 5, config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(a.Close)
	ctx := context.Background()
	return func() error { _, err := a.Next(ctx); return err }
}

func newSonyflake(b *testing.B) *sonyflake.Sonyflake {
	s, err := sonyflake.New(sonyflake.Settings{MachineID: func() (uint16, error) { return 5, nil }})
	if err != nil {
		b.Error(err)
	}
	return s
}

// BenchmarkCost is what an ID costs, waiting for the clock left out.
func BenchmarkCost(b *testing.B) {
	for _, l := range libraries {
		make := l.new
		if other := withoutWait[l.name]; other != nil {
			make = other
		}
		b.Run(l.name, func(b *testing.B) { singleAndParallel(b, make) })
	}
}

// BenchmarkForLong is what each gives in a loop that does nothing else, waiting for
// the clock included. The metric limit-ns/ID is the least that its format allows.
func BenchmarkForLong(b *testing.B) {
	for _, l := range libraries {
		b.Run(l.name, func(b *testing.B) {
			singleAndParallel(b, l.new, func(b *testing.B) {
				if !math.IsInf(l.limit, 1) {
					b.ReportMetric(1e6/l.limit, "limit-ns/ID")
				}
			})
		})
	}
}

func singleAndParallel(b *testing.B, make func(*testing.B) func() error, also ...func(*testing.B)) {
	b.Run("single", func(b *testing.B) {
		next := make(b)
		warmUp(b, next)
		b.ReportAllocs()
		for b.Loop() {
			if err := next(); err != nil {
				b.Fatal(err)
			}
		}
		for _, f := range also {
			f(b)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		next := make(b)
		warmUp(b, next)
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if err := next(); err != nil {
					b.Error(err)
					return
				}
			}
		})
		for _, f := range also {
			f(b)
		}
	})
}

// warmUp draws for as long as a sequence or a lead may take to fill: what comes
// before the first wait would flatter those that wait.
func warmUp(b *testing.B, next func() error) {
	b.Helper()
	for begin := time.Now(); time.Since(begin) < 300*time.Millisecond; {
		for range 100 {
			if err := next(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
