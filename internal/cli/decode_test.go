package cli

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/nextid/postgres-ids/pgid"
)

func TestDecodeTable(t *testing.T) {
	t.Parallel()
	const want = `
┌────────────────────┬───────────────────────────────────────────┬───────────────┬────────────┐
│ ID                 │ time (41 bits)                            │ shard (13)    │ seq (10)   │
├────────────────────┼───────────────────────────────────────────┼───────────────┼────────────┤
│ 242897682085971968 │ 2026-12-02T03:14:20.115Z                  │ 2             │ 0          │
│                    │ 00000011010111101111001000100111101010011 │ 0000000000010 │ 0000000000 │
├────────────────────┼───────────────────────────────────────────┼───────────────┼────────────┤
│ -1                 │ 2025-12-31T23:59:59.999Z                  │ 8191          │ 1023       │
│                    │ 11111111111111111111111111111111111111111 │ 1111111111111 │ 1111111111 │
└────────────────────┴───────────────────────────────────────────┴───────────────┴────────────┘
`
	got := run(t, nil, "", "decode", "242897682085971968", "-1").prints(t)
	if "\n"+got != want {
		t.Errorf("got\n%s\nwant%s", got, want)
	}
}

func TestDecodeJSON(t *testing.T) {
	t.Parallel()
	const (
		minusOne = `{"id":"-1","time":"2025-12-31T23:59:59.999Z","shard":8191,"seq":1023}` + "\n"
		zero     = `{"id":"0","time":"2026-01-01T00:00:00.000Z","shard":0,"seq":0}` + "\n"
		seven    = `{"id":"7","time":"2026-01-01T00:00:00.000Z","shard":0,"seq":7}` + "\n"
	)
	tests := []struct {
		name, stdin string
		args        []string
		want        string
	}{
		{"one", "", []string{"--json", "242897682085971968"}, `{"id":"242897682085971968","time":"2026-12-02T03:14:20.115Z","shard":2,"seq":0}` + "\n"},
		{"negative", "", []string{"-1", "--json"}, minusOne},
		{"negative after --", "", []string{"--json", "--", "-1"}, minusOne},
		{"order", "", []string{"0", "-1", "--json", "7"}, zero + minusOne + seven},
		{"lowest", "", []string{"--json", "-9223372036854775808"}, `{"id":"-9223372036854775808","time":"1991-02-28T04:06:12.224Z","shard":0,"seq":0}` + "\n"},
		{"highest", "", []string{"--json", "9223372036854775807"}, `{"id":"9223372036854775807","time":"2060-11-03T19:53:47.775Z","shard":8191,"seq":1023}` + "\n"},
		{"epoch", "", []string{"--json", "--epoch", "2020-01-01T02:00:00+02:00", "0"}, `{"id":"0","time":"2020-01-01T00:00:00.000Z","shard":0,"seq":0}` + "\n"},
		{"standard input", " 0\r\n\n-1", []string{"--json", "-", "7"}, zero + minusOne + seven},
		{"empty standard input", "", []string{"--json", "-"}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, nil, test.stdin, append([]string{"decode"}, test.args...)...).prints(t)
			if got != test.want {
				t.Errorf("got\n%swant\n%s", got, test.want)
			}
		})
	}
}

// All is checked before anything is printed: fails asserts an empty output.
func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, stdin string
		args        []string
		says        []string
	}{
		{"word", "", []string{"5", "x1"}, []string{`"x1" is not an ID`, "decimal"}},
		{"too large", "", []string{"5", "9223372036854775808"}, []string{`"9223372036854775808" is not an ID`, "9223372036854775807"}},
		{"fraction", "", []string{"-1.5"}, []string{`"-1.5" is not an ID`}},
		{"empty", "", []string{""}, []string{`"" is not an ID`}},
		{"line of input", "1\n2\nx\n", []string{"-"}, []string{"line 3", `"x" is not an ID`}},
		{"long line of input", strings.Repeat("1", 70000), []string{"-"}, []string{"standard input"}},
		{"epoch", "", []string{"--epoch", "yesterday", "5"}, []string{`--epoch "yesterday"`, "RFC 3339"}},
		{"epoch out of range", "", []string{"--epoch", "1969-01-01T00:00:00Z", "5"}, []string{"1969", "1970 to 2070"}},
		{"two epochs", "", []string{"--epoch", "2020-01-01T00:00:00Z", "--database-url", "postgres://h/db", "5"}, []string{"give one of them"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			run(t, nil, test.stdin, append([]string{"decode"}, test.args...)...).fails(t, test.says...)
		})
	}
}

// The end of a terminal's input may never come: an interrupt ends the reading.
func TestDecodeInterrupted(t *testing.T) {
	t.Parallel()
	silent, _ := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errOut strings.Builder
	code := Run(ctx, []string{"decode", "-"}, Env{
		Stdin: silent, Stdout: io.Discard, Stderr: &errOut, Getenv: func(string) string { return "" },
	})
	if code != exitInterrupted || errOut.String() != "pgid: interrupted\n" {
		t.Errorf("exit %d, error %q", code, errOut.String())
	}
}

func TestParseRanges(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args string
		want []shardRange
	}{
		{"5", []shardRange{{5, 5}}},
		{"0-15", []shardRange{{0, 15}}},
		{"0-3,7", []shardRange{{0, 3}, {7, 7}}},
		{"7 0-3", []shardRange{{0, 3}, {7, 7}}},
		{"0-3 2-5,6", []shardRange{{0, 6}}},
		{"0-9 3-4 3", []shardRange{{0, 9}}},
		{"0-8191", []shardRange{{0, 8191}}},
	}
	for _, test := range tests {
		got, err := parseRanges(strings.Fields(test.args))
		if err != nil || len(got) != len(test.want) {
			t.Errorf("%s: %v, %v, want %v", test.args, got, err, test.want)
			continue
		}
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("%s: %v, want %v", test.args, got, test.want)
			}
		}
	}
	for _, bad := range []string{"", "x", "8192", "0-8192", "-1", "1-", "-", "1,,2", "1,", "3-1", "1-2-3", "+1", " 1"} {
		if got, err := parseRanges([]string{bad}); err == nil {
			t.Errorf("%q: %v, want an error", bad, got)
		}
	}
}

func TestBatches(t *testing.T) {
	t.Parallel()
	next := pgid.Shard(0)
	for _, b := range batches([]shardRange{{0, pgid.MaxShard}}) {
		if b.first != next || b.size() < 1 || b.size() > batchSize {
			t.Fatalf("batch %v, want one from %d of at most %d", b, next, batchSize)
		}
		next = b.last + 1
	}
	if next != pgid.MaxShard+1 {
		t.Errorf("batches end before %d", next)
	}
}
