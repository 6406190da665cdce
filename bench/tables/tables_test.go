package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const performance = "../../docs/performance"

// The documents show what the files have: fill them again, and nothing changes.
func TestDocumentsShowTheFigures(t *testing.T) {
	for _, name := range []string{"../../docs/performance.md", "../../README.md"} {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "document.md")
		emptied := []string{}
		inside := false
		for line := range strings.Lines(string(want)) {
			if strings.HasPrefix(line, "<!-- end of table") {
				inside = false
			}
			if !inside {
				emptied = append(emptied, line)
			}
			if strings.HasPrefix(line, "<!-- table of") {
				inside = true
			}
		}
		if err := os.WriteFile(file, []byte(strings.Join(emptied, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(performance, []string{file}); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s does not show what docs/performance has: run make charts", name)
		}
	}
}

func TestRefusals(t *testing.T) {
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "document.md")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, c := range []struct {
		name, in string
		files    []string
		want     string
	}{
		{"nothing named", "", nil, "name the figures"},
		{"no figures", t.TempDir(), []string{file("")}, "make figures"},
		{"no mark", performance, []string{file("text\n")}, "has no mark for a table"},
		{"unknown table", performance, []string{file("<!-- table of kings -->\n<!-- end of table of kings -->\n")}, "no table of kings"},
		{"no end", performance, []string{file("<!-- table of calls -->\n")}, "<!-- end of table of calls -->"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := run(c.in, c.files); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want it to say %q", err, c.want)
			}
		})
	}
}
