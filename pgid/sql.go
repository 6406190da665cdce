package pgid

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"
)

var (
	_ pgtype.Int64Valuer  = ID(0)
	_ pgtype.Int64Scanner = (*ID)(nil)
	_ driver.Valuer       = ID(0)
	_ sql.Scanner         = (*ID)(nil)
)

// Int64Value implements [pgtype.Int64Valuer]: pgx sends an ID as a bigint.
func (id ID) Int64Value() (pgtype.Int8, error) {
	return pgtype.Int8{Int64: int64(id), Valid: true}, nil
}

// ScanInt64 implements [pgtype.Int64Scanner]. NULL is an error: scan into a *ID or
// an sql.Null[ID] where it may occur.
func (id *ID) ScanInt64(v pgtype.Int8) error {
	if !v.Valid {
		return errNull
	}
	*id = ID(v.Int64)
	return nil
}

// Value implements [driver.Valuer].
func (id ID) Value() (driver.Value, error) { return int64(id), nil }

// Scan implements [sql.Scanner] for an integer or its decimal text. NULL is an
// error: scan into a *ID or an sql.Null[ID] where it may occur.
func (id *ID) Scan(src any) error {
	switch v := src.(type) {
	case int64:
		*id = ID(v)
		return nil
	case string:
		return id.UnmarshalText([]byte(v))
	case []byte:
		return id.UnmarshalText(v)
	case nil:
		return errNull
	}
	return fmt.Errorf("pgid: cannot scan %T into an ID: use an integer or its decimal text", src)
}

var errNull = errors.New("pgid: cannot scan NULL into an ID: use *pgid.ID or sql.Null[pgid.ID]")

// Register tells a connection's type map that an ID is a bigint, and a []ID a
// bigint[]. Scanning and sending single IDs works without it; a []ID parameter needs
// it in the simple protocol and in the exec mode. Call it in AfterConnect:
//
//	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
//		pgid.Register(conn.TypeMap())
//		return nil
//	}
func Register(m *pgtype.Map) {
	m.RegisterDefaultPgType(ID(0), "int8")
	m.RegisterDefaultPgType([]ID(nil), "_int8")
}
