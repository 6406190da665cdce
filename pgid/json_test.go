package pgid_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/nextid/postgres-ids/pgid"
)

func TestUnmarshalJSON(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		data string
		id   pgid.ID
		ok   bool
	}{
		{"string", `"5"`, 5, true},
		{"number", `5`, 5, true},
		{"negative string", `"-5"`, -5, true},
		{"negative number", `-5`, -5, true},
		{"2^53 + 1 as a number", `9007199254740993`, 1<<53 + 1, true},
		{"2^53 + 1 as a string", `"9007199254740993"`, 1<<53 + 1, true},
		{"largest number", `9223372036854775807`, math.MaxInt64, true},
		{"smallest number", `-9223372036854775808`, math.MinInt64, true},
		{"escaped digits", `"\u0031\u0032"`, 12, true},
		{"escaped sign", `"\u002d7"`, -7, true},
		{"spaces around", " \n\"5\"\t", 5, true},
		{"null leaves it", `null`, 42, true},

		{"null in a string", `"null"`, 42, false},
		{"empty string", `""`, 42, false},
		{"space in the string", `" 5"`, 42, false},
		{"escaped newline", `"5\n"`, 42, false},
		{"quotes in the string", `"\"5\""`, 42, false},
		{"fraction", `5.0`, 42, false},
		{"exponent", `5e0`, 42, false},
		{"minus zero", `-0`, 42, false},
		{"true", `true`, 42, false},
		{"array", `[5]`, 42, false},
		{"object", `{"id":5}`, 42, false},
		{"too large", `9223372036854775808`, 42, false},
		{"too large a string", `"9223372036854775808"`, 42, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			id := pgid.ID(42)
			err := json.Unmarshal([]byte(test.data), &id)
			if id != test.id || (err == nil) != test.ok {
				t.Fatalf("got %d, %v, want %d, ok %t", id, err, test.id, test.ok)
			}
			var parse *pgid.ParseError
			if err != nil && !errors.As(err, &parse) {
				t.Errorf("%v is not a *ParseError", err)
			}
		})
	}
}

func TestJSONInPlace(t *testing.T) {
	t.Parallel()
	type row struct {
		ID     pgid.ID             `json:"id"`
		Parent *pgid.ID            `json:"parent"`
		Names  map[pgid.ID]string  `json:"names"`
		Links  []pgid.ID           `json:"links"`
		By     map[string]*pgid.ID `json:"by"`
	}
	in := row{ID: 1<<53 + 1, Names: map[pgid.ID]string{-7: "seven"}, Links: []pgid.ID{1, 2}}
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"id":"9007199254740993","parent":null,"names":{"-7":"seven"},"links":["1","2"],"by":null}`
	if string(data) != want {
		t.Errorf("JSON %s, want %s", data, want)
	}
	var out row
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	if out.ID != in.ID || out.Parent != nil || out.Names[-7] != "seven" || len(out.Links) != 2 || out.Links[1] != 2 {
		t.Errorf("read back %+v", out)
	}
	if err := json.Unmarshal([]byte(`{"names":{"07":"x"}}`), &out); err == nil {
		t.Error("a map key with a leading zero is read")
	}
}

func FuzzUnmarshalJSON(f *testing.F) {
	for _, test := range parseTests {
		if len(test.text) < 100 {
			f.Add([]byte(test.text))
			f.Add([]byte(`"` + test.text + `"`))
		}
	}
	for _, seed := range []string{`"\u0031"`, `"\`, `"`, `"\ud800"`, `null`, `nul`, `{}`, `"1" `, ` 1`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		id := pgid.ID(42)
		err := id.UnmarshalJSON(data)
		if !bytes.Equal(data, before) {
			t.Fatalf("%q became %q", before, data)
		}
		if err != nil {
			if id != 42 {
				t.Fatalf("%q: failed, and left %d", data, id)
			}
			return
		}
		if string(data) == "null" {
			return
		}
		// What it reads is a JSON number or string in the form of String.
		var value any
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil {
			t.Fatalf("%q is not JSON (%v), but reads as %d", data, err, id)
		}
		if got := fmt.Sprint(value); got != id.String() {
			t.Fatalf("%q is %s, but reads as %d", data, got, id)
		}
	})
}
