package postgresids_test

import (
	"fmt"
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
)

// The common case of next_id compares times where the law compares milliseconds. To
// the microsecond, it takes what the law issues at once, and nothing else: at the edges
// of the millisecond and of the lead, over all the years there are. One microsecond is
// left to the slow path, the first in which the lead is as long as it may be.
func TestCommonCaseToTheMicrosecond(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ lead, epoch int64 }{
		{100, 1767225600000}, {1, 1767225600000}, {3_600_000, 1767225600000}, {100, 1288834974657}, {100, 946684800001},
	} {
		t.Run(fmt.Sprintf("lead %d epoch %d", c.lead, c.epoch), func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			db.Exec(t, "SELECT pgid.configure($1, NULL, $2)", c.lead, c.epoch)
			db.Exec(t, "SELECT pgid.create_shard(5)")
			shownClock(t, db)
			db.Exec(t, `CREATE FUNCTION wrong(max_lead bigint, OUT ms bigint, OUT lead bigint, OUT micro bigint, OUT issuable boolean, OUT now_ms bigint)
				RETURNS SETOF record LANGUAGE plpgsql AS $$
				BEGIN
					FOR ms IN SELECT unnest(ARRAY[0, 1, 1099511627775 - 3600001]) UNION ALL SELECT (random() * (1099511627775 - 3600001))::bigint FROM generate_series(1, 3000) LOOP
						FOREACH lead IN ARRAY ARRAY[-1, 0, 1, max_lead - 1, max_lead, max_lead + 1] LOOP
							FOREACH micro IN ARRAY ARRAY[0, 1, 500, 999] LOOP
								CONTINUE WHEN ms + lead < 0;
								PERFORM set_config('trace.now', (ms * 1000 + micro)::text, false);
								issuable := pgid.is_issuable((ms + lead) << 10 | micro, pgid.read_base(5), 5);
								now_ms   := pgid.now_ms();
								IF issuable <> (lead BETWEEN 0 AND max_lead AND (lead, micro) <> (max_lead, 0)) OR now_ms <> ms THEN
									RETURN NEXT;
								END IF;
							END LOOP;
						END LOOP;
					END LOOP;
				END $$`)
			wrong := pgtest.Query[[]string](t, db, "SELECT coalesce(array_agg(w::text), '{}') FROM wrong($1) AS w", c.lead)
			if len(wrong) > 0 {
				t.Errorf("%d wrong: (ms, lead, microsecond, issuable, now_ms) = %s", len(wrong), wrong[:min(5, len(wrong))])
			}

			// A base that has moved, or never was, is nothing to issue on; nor is the end of ticks.
			db.Exec(t, "SELECT set_config('trace.now', '0', false)")
			for _, no := range []string{"0, 0, 5", "0, NULL, 5", "0, -1, 6", "NULL, -1, 5", "1::bigint << 50, -1, 5"} {
				if pgtest.Query[bool](t, db, "SELECT set_config('trace.now', CASE WHEN '"+no+"' LIKE '1%' THEN '1099511627776000' ELSE '0' END, true) IS NOT NULL AND pgid.is_issuable("+no+") IS TRUE") {
					t.Errorf("is_issuable(%s) is true", no)
				}
			}
		})
	}
}
