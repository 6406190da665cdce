// Command tables writes what was measured into Markdown files, between the marks that
// they have for it: see [fill].
//
//	go run ./tables -in ../docs/performance ../docs/performance.md ../README.md
//
// The same input gives the same output, byte for byte.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/nextid/postgres-ids/internal/display"
)

func main() {
	in := flag.String("in", "", "the `directory` with what make figures has measured")
	flag.Parse()
	if err := run(*in, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "tables:", err)
		os.Exit(1)
	}
}

// tables by the names of their marks.
var tables = map[string]func(*figures) (table.Writer, error){
	"cost":      cost,
	"calls":     calls,
	"sessions":  sessions,
	"batches":   batches,
	"shards":    shards,
	"keys":      keys,
	"libraries": libraries,
}

func run(in string, files []string) error {
	if in == "" || len(files) == 0 {
		return fmt.Errorf("name the figures and the files to fill, as in -in docs/performance README.md")
	}
	measured, err := read(in)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := fill(file, measured); err != nil {
			return err
		}
	}
	return nil
}

var mark = regexp.MustCompile(`(?m)^<!-- table of ([a-z]+) -->$`)

// fill writes each table that a file has marks for: "table of sessions", say.
func fill(file string, measured *figures) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	marks := mark.FindAllStringSubmatch(string(text), -1)
	if len(marks) == 0 {
		return fmt.Errorf("%s has no mark for a table, such as <!-- table of calls -->", file)
	}
	for _, m := range marks {
		make := tables[m[1]]
		if make == nil {
			return fmt.Errorf("%s: there is no table of %s", file, m[1])
		}
		t, err := make(measured)
		if err != nil {
			return fmt.Errorf("%s: the table of %s: %w", file, m[1], err)
		}
		if err := display.Fill(file, "table of "+m[1], t.RenderMarkdown()); err != nil {
			return err
		}
		fmt.Printf("%s: table of %s\n", file, m[1])
	}
	return nil
}
