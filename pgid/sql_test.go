package pgid_test

import (
	"database/sql"
	"math"
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/nextid/postgres-ids/pgid"
)

func TestScan(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		src  any
		id   pgid.ID
		ok   bool
	}{
		{"integer", int64(5), 5, true},
		{"smallest integer", int64(math.MinInt64), math.MinInt64, true},
		{"string", "9007199254740993", 1<<53 + 1, true},
		{"bytes", []byte("-7"), -7, true},
		{"NULL", nil, 42, false},
		{"bad string", "5 ", 42, false},
		{"bad bytes", []byte(""), 42, false},
		{"nil bytes", []byte(nil), 42, false},
		{"float, which may have been rounded", float64(5), 42, false},
		{"bool", true, 42, false},
		{"int32", int32(5), 42, false},
		{"uint64", uint64(math.MaxUint64), 42, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			id := pgid.ID(42)
			if err := id.Scan(test.src); id != test.id || (err == nil) != test.ok {
				t.Errorf("got %d, %v, want %d, ok %t", id, err, test.id, test.ok)
			}
		})
	}
}

func TestScanInt64(t *testing.T) {
	t.Parallel()
	id := pgid.ID(42)
	if err := id.ScanInt64(pgtype.Int8{}); err == nil || id != 42 {
		t.Errorf("NULL: got %d, %v, want an error", id, err)
	}
	if err := id.ScanInt64(pgtype.Int8{Int64: math.MinInt64, Valid: true}); err != nil || id != math.MinInt64 {
		t.Errorf("got %d, %v", id, err)
	}
}

func TestValue(t *testing.T) {
	t.Parallel()
	for _, id := range []pgid.ID{0, -1, math.MinInt64, math.MaxInt64} {
		if value, err := id.Value(); err != nil || value != int64(id) {
			t.Errorf("Value of %d = %v (%T), %v", id, value, value, err)
		}
		if value, err := id.Int64Value(); err != nil || value != (pgtype.Int8{Int64: int64(id), Valid: true}) {
			t.Errorf("Int64Value of %d = %v, %v", id, value, err)
		}
	}
}

// TestNull is the way that the error on NULL recommends.
func TestNull(t *testing.T) {
	t.Parallel()
	null := sql.Null[pgid.ID]{V: 42, Valid: true}
	if err := null.Scan(nil); err != nil || null.Valid {
		t.Errorf("NULL scans as %v, %v", null, err)
	}
	if value, err := null.Value(); err != nil || value != nil {
		t.Errorf("NULL has the value %v, %v", value, err)
	}
	if err := null.Scan(int64(5)); err != nil || null != (sql.Null[pgid.ID]{V: 5, Valid: true}) {
		t.Errorf("5 scans as %v, %v", null, err)
	}
	// A driver is handed what the ID itself is valued at, once or twice removed.
	if value, err := null.Value(); err != nil || value != any(pgid.ID(5)) && value != any(int64(5)) {
		t.Errorf("5 has the value %v (%T), %v", value, value, err)
	}
}

// TestTypeMap sends and scans IDs through pgx's type map, in both wire formats.
func TestTypeMap(t *testing.T) {
	t.Parallel()
	formats := map[string]int16{"text": pgtype.TextFormatCode, "binary": pgtype.BinaryFormatCode}
	for name, format := range formats {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := pgtype.NewMap() // one each: a Map is not safe for concurrent use
			pgid.Register(m)

			wire, err := m.Encode(pgtype.Int8OID, format, pgid.ID(-7), nil)
			if err != nil {
				t.Fatal(err)
			}
			var id pgid.ID
			if err := m.Scan(pgtype.Int8OID, format, wire, &id); err != nil || id != -7 {
				t.Errorf("scanned %d, %v", id, err)
			}
			if err := m.Scan(pgtype.Int8OID, format, nil, &id); err == nil {
				t.Error("NULL scans into an ID")
			}
			pointer := &id
			if err := m.Scan(pgtype.Int8OID, format, nil, &pointer); err != nil || pointer != nil {
				t.Errorf("NULL scans into a *ID as %v, %v", pointer, err)
			}

			ids := []pgid.ID{1, math.MinInt64, 1<<53 + 1}
			if wire, err = m.Encode(pgtype.Int8ArrayOID, format, ids, nil); err != nil {
				t.Fatal(err)
			}
			var back []pgid.ID
			if err := m.Scan(pgtype.Int8ArrayOID, format, wire, &back); err != nil || !reflect.DeepEqual(back, ids) {
				t.Errorf("scanned %v, %v, want %v", back, err, ids)
			}
		})
	}
}

// TestRegister: the map then knows the PostgreSQL type of a Go value by itself,
// which is all that the simple protocol and the exec mode go by.
func TestRegister(t *testing.T) {
	t.Parallel()
	tests := []struct {
		value any
		oid   uint32
	}{
		{pgid.ID(1), pgtype.Int8OID},
		{[]pgid.ID{1}, pgtype.Int8ArrayOID},
	}
	m := pgtype.NewMap()
	for _, test := range tests {
		if _, ok := m.TypeForValue(test.value); ok {
			t.Fatalf("%T is known without Register, which this test then cannot judge", test.value)
		}
	}
	m = pgtype.NewMap() // the map remembers what it looked up
	pgid.Register(m)
	for _, test := range tests {
		if got, ok := m.TypeForValue(test.value); !ok || got.OID != test.oid {
			t.Errorf("%T has the type %+v, want OID %d", test.value, got, test.oid)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	m := pgtype.NewMap()
	wire, err := m.Encode(pgtype.Int8OID, pgtype.BinaryFormatCode, pgid.ID(1<<53+1), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("pgx", func(b *testing.B) {
		b.ReportAllocs()
		var id pgid.ID
		plan := m.PlanScan(pgtype.Int8OID, pgtype.BinaryFormatCode, &id)
		for b.Loop() {
			if err := plan.Scan(wire, &id); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("database/sql", func(b *testing.B) {
		b.ReportAllocs()
		var id pgid.ID
		var src any = int64(1<<53 + 1)
		for b.Loop() {
			if err := id.Scan(src); err != nil {
				b.Fatal(err)
			}
		}
	})
}
