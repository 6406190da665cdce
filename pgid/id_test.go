package pgid_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nextid/postgres-ids/pgid"
)

var (
	_ fmt.Stringer             = pgid.ID(0)
	_ encoding.TextMarshaler   = pgid.ID(0)
	_ encoding.TextAppender    = pgid.ID(0)
	_ encoding.TextUnmarshaler = (*pgid.ID)(nil)
	_ json.Marshaler           = pgid.ID(0)
	_ json.Unmarshaler         = (*pgid.ID)(nil)
)

// parseTests is also where the fuzz tests start from.
var parseTests = []struct {
	name string
	text string
	id   pgid.ID
	ok   bool
}{
	{"zero", "0", 0, true},
	{"one", "1", 1, true},
	{"minus one", "-1", -1, true},
	{"ten", "10", 10, true},
	{"beyond 2^53", "9007199254740993", 1<<53 + 1, true},
	{"largest", "9223372036854775807", math.MaxInt64, true},
	{"smallest", "-9223372036854775808", math.MinInt64, true},

	{"empty", "", 0, false},
	{"only a sign", "-", 0, false},
	{"plus sign", "+1", 0, false},
	{"two signs", "--1", 0, false},
	{"sign at the end", "1-", 0, false},
	{"minus zero", "-0", 0, false},
	{"leading zero", "01", 0, false},
	{"negative leading zero", "-01", 0, false},
	{"two zeros", "00", 0, false},
	{"leading space", " 1", 0, false},
	{"trailing space", "1 ", 0, false},
	{"newline", "1\n", 0, false},
	{"NUL", "1\x00", 0, false},
	{"underscore", "1_000", 0, false},
	{"comma", "1,000", 0, false},
	{"fraction", "1.0", 0, false},
	{"exponent", "1e3", 0, false},
	{"hexadecimal", "0x10", 0, false},
	{"letters", "abc", 0, false},
	{"letter at the end", "12a", 0, false},
	{"quoted", `"1"`, 0, false},
	{"null", "null", 0, false},
	{"full-width digit", "１", 0, false},
	{"Arabic digit", "١", 0, false},
	{"Unicode minus", "−1", 0, false},
	{"not UTF-8", "\xff", 0, false},
	{"largest + 1", "9223372036854775808", 0, false},
	{"smallest - 1", "-9223372036854775809", 0, false},
	{"2^64 - 1", "18446744073709551615", 0, false},
	{"2^64 wraps to 0", "18446744073709551616", 0, false},
	{"2^64 + 1 wraps to 1", "18446744073709551617", 0, false},
	{"-2^64 wraps to 0", "-18446744073709551616", 0, false},
	{"20 nines", "99999999999999999999", 0, false},
	{"10 times 2^64 wraps", "184467440737095516160", 0, false},
	{"a megabyte", strings.Repeat("9", 1<<20), 0, false},
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, test := range parseTests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			id, err := pgid.Parse(test.text)
			if id != test.id || (err == nil) != test.ok {
				t.Fatalf("Parse = %d, %v, want %d, ok %t", id, err, test.id, test.ok)
			}
			checkParseError(t, err, test.text)

			// UnmarshalText is Parse, and leaves the ID alone when it fails.
			id = 42
			errText := id.UnmarshalText([]byte(test.text))
			if (errText == nil) != test.ok {
				t.Errorf("UnmarshalText: %v, want ok %t", errText, test.ok)
			}
			if want := test.id; test.ok && id != want || !test.ok && id != 42 {
				t.Errorf("UnmarshalText left %d", id)
			}
		})
	}
}

// checkParseError: the error is typed, and of a bounded size, whatever the text.
func checkParseError(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil {
		return
	}
	var parse *pgid.ParseError
	if !errors.As(err, &parse) {
		t.Fatalf("%v is not a *ParseError", err)
	}
	if parse.Reason == "" || !strings.Contains(err.Error(), parse.Reason) {
		t.Errorf("%q does not give the reason %q", err, parse.Reason)
	}
	if len(parse.Text) > 40 || len(text) <= 40 && parse.Text != text {
		t.Errorf("the error quotes %q", parse.Text)
	}
}

// TestErrorKeepsText: cutting a long text for the message must not write into it.
func TestErrorKeepsText(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("x"), 60)
	var id pgid.ID
	if err := id.UnmarshalText(text); err == nil {
		t.Fatal("no error")
	}
	if !bytes.Equal(text, bytes.Repeat([]byte("x"), 60)) {
		t.Errorf("the text became %q", text)
	}
}

func FuzzParse(f *testing.F) {
	for _, test := range parseTests {
		if len(test.text) < 100 {
			f.Add(test.text)
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := pgid.Parse(s)
		checkParseError(t, err, s)
		// The only text of an ID is the one that strconv writes.
		n, intErr := strconv.ParseInt(s, 10, 64)
		isText := intErr == nil && strconv.FormatInt(n, 10) == s
		if (err == nil) != isText || isText && (int64(id) != n || id.String() != s) {
			t.Fatalf("Parse(%q) = %d, %v", s, id, err)
		}
	})
}

func TestText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := pgid.ID(edgy(math.MinInt64, math.MaxInt64).Draw(t, "id"))
		want := fmt.Sprintf("%d", int64(id))
		text, err := id.MarshalText()
		if err != nil || string(text) != want || id.String() != want {
			t.Fatalf("MarshalText %q, %v, String %q, want %q", text, err, id.String(), want)
		}
		appended, err := id.AppendText([]byte("id="))
		if err != nil || string(appended) != "id="+want {
			t.Fatalf("AppendText %q, %v", appended, err)
		}
		if back, err := pgid.Parse(want); err != nil || back != id {
			t.Fatalf("Parse(%q) = %d, %v", want, back, err)
		}
		encoded, err := json.Marshal(id)
		if err != nil || string(encoded) != `"`+want+`"` {
			t.Fatalf("JSON %s, %v", encoded, err)
		}
		for _, data := range []string{string(encoded), want} {
			var back pgid.ID
			if err := json.Unmarshal([]byte(data), &back); err != nil || back != id {
				t.Fatalf("JSON %s reads as %d, %v", data, back, err)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := pgid.Parse("242892527814836224"); err != nil {
			b.Fatal(err)
		}
	}
}
