package postgresids_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/nextid/postgres-ids/internal/pgtest"
)

// BenchmarkNextID measures next_id beside the function that Instagram published and
// a bare nextval, in turn, in one run: microseconds per ID in one session, and IDs a
// second from 16 sessions on one shard. The ratios are to Instagram's; they, not the
// absolute figures, carry over to another machine.
//
//	make bench
func BenchmarkNextID(b *testing.B) {
	db := pgtest.New(b)
	theirs, err := os.ReadFile("testdata/instagram.sql")
	if err != nil {
		b.Fatal(err)
	}
	db.Exec(b, string(theirs))
	db.Exec(b, "SELECT pgid.create_shards(0, 15)")
	db.Exec(b, "CREATE SEQUENCE bare")
	b.Logf("PostgreSQL %s", pgtest.Query[string](b, db, "SHOW server_version"))

	peers := []struct{ name, call string }{
		{"instagram", "insta5.next_id()"},
		{"next_id", "pgid.next_id(5)"},
		{"nextval", "nextval('bare')"},
	}
	for _, c := range []struct{ sessions, ids, rounds int }{{1, 200_000, 9}, {16, 25_000, 7}} {
		b.Run(fmt.Sprintf("sessions=%d", c.sessions), func(b *testing.B) {
			conns := make([]*pgx.Conn, c.sessions)
			for i := range conns {
				conns[i] = db.Connect(b)
			}
			took := make([][]time.Duration, len(peers))
			for range b.N {
				for round := range c.rounds + 1 {
					for i, peer := range peers {
						query := fmt.Sprintf("SELECT count(%s) FROM generate_series(1, %d)", peer.call, c.ids)
						start := time.Now()
						var group errgroup.Group
						for _, conn := range conns {
							group.Go(func() error {
								_, err := conn.Exec(b.Context(), query)
								return err
							})
						}
						if err := group.Wait(); err != nil {
							b.Fatal(err)
						}
						if round > 0 { // the first one warms up
							took[i] = append(took[i], time.Since(start))
						}
					}
				}
			}
			total := float64(c.sessions * c.ids)
			base := median(took[0]).Seconds()
			for i, peer := range peers {
				m := median(took[i]).Seconds()
				b.ReportMetric(m*1e6/total, peer.name+"-us/id")
				if i == 0 {
					continue
				}
				b.ReportMetric(m/base, peer.name+"/instagram-cost")
				// The spread of the ratio, round by round: neighbours in time share the machine's noise.
				ratios := make([]float64, len(took[i]))
				for r := range ratios {
					ratios[r] = took[i][r].Seconds() / took[0][r].Seconds()
				}
				b.ReportMetric(slices.Min(ratios), peer.name+"/instagram-min")
				b.ReportMetric(slices.Max(ratios), peer.name+"/instagram-max")
			}
			b.ReportMetric(0, "ns/op") // one op is a whole run: its time says nothing
		})
	}
}

func median(d []time.Duration) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}
