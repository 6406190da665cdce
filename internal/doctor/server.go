package doctor

import (
	"context"
	"time"
)

// server is what a database's server says of itself, and of this session.
type server struct {
	Version    int // as 170004
	Standby    bool
	DatabaseID uint32
	Started    time.Time
	Role       string
	PID        uint32
}

func (e *exam) readServer(ctx context.Context) error {
	r, err := one[server](ctx, e, `
		SELECT current_setting('server_version_num')::integer, pg_is_in_recovery(),
		       (SELECT oid FROM pg_database WHERE datname = current_database()), pg_postmaster_start_time(),
		       current_user::text, pg_backend_pid()::bigint`)
	if err != nil {
		e.failed(err)
		return errStop
	}
	e.server = r
	if e.server.Version < 150000 {
		e.add(Error, "use PostgreSQL 15 or newer", "the server has version %d of PostgreSQL", e.server.Version/10000)
	} else {
		e.ok("PostgreSQL %d, as the role %s", e.server.Version/10000, e.server.Role)
	}
	if e.server.Standby {
		e.add(Info, "examine the primary as well, and mend there what is found here", "this server is a standby: it issues no IDs, and does not show"+
			" the locks and settings of its primary, nor what it has not replayed yet")
	}
	if behindPooler(e.conn.PgConn().PID(), e.server.PID) {
		e.add(Info, "set pgid.shard for the database or the role, or with SET LOCAL; never with SET",
			"this connection leads through a pooler: sessions are shared, and what one sets others may find")
	}
	return nil
}

// behindPooler compares the process that the connection was told to be served by with
// the one that serves it: a pooler makes up the former.
func behindPooler(told, serving uint32) bool { return told != serving }
