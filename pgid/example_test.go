package pgid_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nextid/postgres-ids/pgid"
)

func ExampleParse() {
	id, err := pgid.Parse("242892527814836224")
	fmt.Println(id, err)

	_, err = pgid.Parse("0242892527814836224")
	fmt.Println(err)

	var parse *pgid.ParseError
	fmt.Println(errors.As(err, &parse))
	// Output:
	// 242892527814836224 <nil>
	// pgid: "0242892527814836224" is not an ID: it starts with a zero
	// true
}

func ExampleLayout_Decode() {
	var layout pgid.Layout // the default epoch
	parts := layout.Decode(242892527816209409)
	fmt.Println(parts.Time.Format(time.RFC3339Nano), parts.Shard, parts.Seq)
	// Output: 2026-12-02T03:04:05.678Z 1341 1
}

func ExampleLayout_Encode() {
	var layout pgid.Layout
	created := time.Date(2011, 8, 24, 21, 7, 23, 721_000_000, time.UTC)
	id, err := layout.Encode(created, 1341, 1)
	fmt.Println(id, err) // before the epoch, so negative: it sorts before what is generated
	fmt.Println(layout.Time(id).Equal(created))
	// Output:
	// -3800086033445096447 <nil>
	// true
}

// The IDs of a day: from the smallest of its first millisecond, to below the
// smallest of the next day's.
func ExampleLayout_Min() {
	var layout pgid.Layout
	day := time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)
	from, err := layout.Min(day)
	if err != nil {
		panic(err)
	}
	to, err := layout.Min(day.AddDate(0, 0, 1))
	if err != nil {
		panic(err)
	}
	fmt.Printf("SELECT * FROM events WHERE id >= %d AND id < %d\n", from, to)
	// Output: SELECT * FROM events WHERE id >= 242799869952000000 AND id < 243524645683200000
}

func ExampleGenerator() {
	generator, err := pgid.NewGenerator(1341, pgid.GeneratorConfig{})
	if err != nil {
		panic(err)
	}
	const lastKnown pgid.ID = 8389981185
	// After a restart: go on after the last ID that this shard is known to have issued.
	generator.Advance(lastKnown)

	first, err := generator.Next(context.Background())
	if err != nil {
		panic(err)
	}
	second, err := generator.Next(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Println(first > lastKnown, second > first, first.Shard())
	// Output: true true 1341
}

// A range goes from tick to tick: after seq 1023 comes the next millisecond.
func ExampleRange() {
	r := pgid.Range{First: 242892527816210430, Last: 242892527824598016}
	fmt.Println(r.Len())
	for id := range r.All() {
		fmt.Println(id, id.Time().Format("05.000"), id.Shard(), id.Seq())
	}
	// Output:
	// 3
	// 242892527816210430 05.678 1341 1022
	// 242892527816210431 05.678 1341 1023
	// 242892527824598016 05.679 1341 0
}

func ExampleID_MarshalJSON() {
	type event struct {
		ID   pgid.ID `json:"id"`
		Name string  `json:"name"`
	}
	data, err := json.Marshal(event{ID: 242892527816209409, Name: "signup"})
	fmt.Println(string(data), err)

	// A number is read as well, and exactly.
	var e event
	err = json.Unmarshal([]byte(`{"id": 9007199254740993}`), &e)
	fmt.Println(e.ID, err)
	// Output:
	// {"id":"242892527816209409","name":"signup"} <nil>
	// 9007199254740993 <nil>
}

func ExampleError() {
	// What an INSERT returned whose default is pgid.next_id(5).
	var failed error = &pgconn.PgError{
		Code:    "ID002",
		Message: "shard 5 does not exist in this database",
		Hint:    "Create it as the owner of the schema pgid: SELECT pgid.create_shard(5);",
	}
	err := pgid.Error(failed)
	fmt.Println(errors.Is(err, pgid.ErrNoShard))
	fmt.Println(err)
	// Output:
	// true
	// pgid: shard 5 does not exist in this database (SQLSTATE ID002): Create it as the owner of the schema pgid: SELECT pgid.create_shard(5);
}
