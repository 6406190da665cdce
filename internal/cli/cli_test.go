package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/nextid/postgres-ids/internal/pgtest"
	"github.com/nextid/postgres-ids/pgid"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }

// result is what a run of pgid left.
type result struct {
	code        int
	out, errOut string
}

// run runs pgid in an environment of the given variables alone.
func run(t *testing.T, env map[string]string, stdin string, args ...string) result {
	t.Helper()
	return runIn(t.Context(), env, stdin, args...)
}

func runIn(ctx context.Context, env map[string]string, stdin string, args ...string) result {
	var out, errOut bytes.Buffer
	code := Run(ctx, args, Env{
		Stdin:  strings.NewReader(stdin),
		Stdout: &out,
		Stderr: &errOut,
		Getenv: func(name string) string { return env[name] },
	})
	return result{code, out.String(), errOut.String()}
}

// fails asserts the rules for every error: non-zero exit, nothing on stdout, one line
// with the prefix once, and the given parts in it.
func (r result) fails(t *testing.T, parts ...string) {
	t.Helper()
	prefixes := regexp.MustCompile(`(^|: |; )pgid: `)
	if r.code == 0 || r.out != "" {
		t.Errorf("exit %d with output %q, want an error alone", r.code, r.out)
	}
	if !strings.HasPrefix(r.errOut, "pgid: ") || len(prefixes.FindAllString(r.errOut, -1)) != 1 ||
		strings.Count(r.errOut, "\n") != 1 || !strings.HasSuffix(r.errOut, "\n") {
		t.Errorf("error is not one line with the prefix once: %q", r.errOut)
	}
	for _, part := range parts {
		if !strings.Contains(r.errOut, part) {
			t.Errorf("error %q does not say %q", r.errOut, part)
		}
	}
}

// prints asserts success, and returns the output.
func (r result) prints(t *testing.T) string {
	t.Helper()
	if r.code != 0 || r.errOut != "" {
		t.Fatalf("exit %d: %s", r.code, r.errOut)
	}
	return r.out
}

func TestArgumentErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		says []string
	}{
		{"unknown command", []string{"nxt"}, []string{`"nxt"`, "did you mean next?", "«pgid --help»"}},
		{"unknown subcommand", []string{"migrate", "upp"}, []string{`"upp"`, "did you mean up?", "«pgid migrate --help»"}},
		{"unknown flag", []string{"next", "--foo"}, []string{"--foo", "«pgid next --help»"}},
		{"flag of a wrong type", []string{"next", "--shard", "x"}, []string{`--shard "x" is not of type int`}},
		{"no shard", []string{"next"}, []string{"--shard 5"}},
		{"negative shard", []string{"next", "--shard", "-1"}, []string{"--shard -1", "0 to 8191"}},
		{"shard beyond the last", []string{"next", "--shard", "8192"}, []string{"--shard 8192", "0 to 8191"}},
		{"count of none", []string{"next", "--shard", "5", "--count", "0"}, []string{"--count 0", "1 or more"}},
		{"argument to next", []string{"next", "5"}, []string{`"5"`}},
		{"no shards", []string{"shard", "create"}, []string{"«pgid shard create 0-15»"}},
		{"negative shards", []string{"shard", "create", "-1"}, []string{`"-1"`, "0 to 8191"}},
		{"backwards", []string{"shard", "create", "3-1"}, []string{`"3-1"`, "1-3"}},
		{"no version", []string{"migrate", "force"}, []string{"one version"}},
		{"negative version", []string{"migrate", "force", "-1"}, []string{`"-1"`, fmt.Sprintf("0 to %d", pgid.SchemaVersion)}},
		{"no ID", []string{"decode"}, []string{"give an ID"}},
		{"no database", []string{"next", "--shard", "5"}, []string{"--database-url", "PGID_DATABASE_URL"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			run(t, nil, "", test.args...).fails(t, test.says...)
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	version := run(t, nil, "", "--version").prints(t)
	if !strings.HasPrefix(version, "pgid ") || !strings.Contains(version, fmt.Sprintf("schema version %d,", pgid.SchemaVersion)) || strings.Count(version, "\n") != 1 {
		t.Errorf("version %q", version)
	}
	for _, command := range []string{
		"", "migrate", "migrate up", "migrate down", "migrate version", "migrate force",
		"shard", "shard create", "shard list", "shard advance", "shard move", "shard retire", "pool", "pool create", "pool list", "doctor", "next", "decode", "demo", "bench", "bench insert", "bench growth",
	} {
		help := run(t, nil, "", append(strings.Fields(command), "--help")...).prints(t)
		if !strings.Contains(help, "Examples:\n  ") || !strings.Contains(help, "--database-url URL") {
			t.Errorf("help of %q lacks examples or the common flag:\n%s", command, help)
		}
		for line := range strings.Lines(help) {
			if len([]rune(line)) > 110 {
				t.Errorf("help of %q has a line of %d columns: %s", command, len(line), line)
			}
		}
	}
	if got := run(t, nil, "", "__complete", "migrate", "").out; !strings.Contains(got, "up\t") || !strings.Contains(got, "force\t") {
		t.Errorf("completion of migrate: %q", got)
	}
	if got := run(t, nil, "", "completion", "bash").prints(t); !strings.Contains(got, "__start_pgid") {
		t.Errorf("completion script: %.100q", got)
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, want string }{
		{"one", "one"},
		{"a:\n\tb\n\tc", "a: b; c"},
		{"a:\n\tb\n\tb\n", "a: b"},
		{"\r\na\r\n\r\nb", "a; b"},
		{"a\x1b[31mb: ü\u202e", `a\x1b[31mb: ü\u202e`},
	}
	for _, test := range tests {
		if got := fold(test.text); got != test.want {
			t.Errorf("fold(%q) = %q, want %q", test.text, got, test.want)
		}
	}
}

func TestUnprefixed(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, want string }{
		{"pgid: a", "a"},
		{"pgid: pgid: a: pgid: b; pgid: c", "a: b; c"},
		{`schema "pgid" of database pgid: a`, `schema "pgid" of database pgid: a`},
	}
	for _, test := range tests {
		if got := unprefixed(test.text); got != test.want {
			t.Errorf("unprefixed(%q) = %q, want %q", test.text, got, test.want)
		}
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := runIn(ctx, map[string]string{"PGID_DATABASE_URL": "postgres://u:p@127.0.0.1:1/db"}, "", "next", "--shard", "5")
	if r.code != 130 || r.errOut != "pgid: interrupted\n" {
		t.Errorf("exit %d, error %q", r.code, r.errOut)
	}
}
