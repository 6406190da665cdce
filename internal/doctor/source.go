package doctor

import (
	_ "embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/nextid/postgres-ids/migrations"
)

var create = regexp.MustCompile(`(?m)^CREATE (?:OR REPLACE )?(FUNCTION|VIEW) (pgid\.\w+)`)

// grantsName is what [Source] has the rights under: all of them, as sql/grants.sql sets them.
const grantsName = "grants"

//go:embed grants.sql
var grantsSQL string

// Source is a script for psql that puts a function or view of the schema pgid back as
// the migrations bring it: one that [Examine] has found changed or missing. It is named
// as there, pgid.next_id(integer) for example; "grants" is who may call what.
func Source(name string) (string, error) {
	if name == grantsName {
		return "BEGIN;\nSET LOCAL search_path = pg_catalog, pg_temp;\n" + grantsSQL + "COMMIT;\n", nil
	}
	want, err := installed()
	if err != nil {
		return "", err
	}
	d, known := want[name]
	if !known {
		return "", fmt.Errorf("%q is no function or view of pgid: use a name that «pgid doctor» prints, as pgid.next_id(integer), or grants", name)
	}
	statements, err := sources()
	if err != nil {
		return "", err
	}
	bare, arguments, isFunction := strings.Cut(name, "(")
	var candidates []string
	for _, s := range statements[bare] {
		if countArguments(s) == countArguments("("+arguments) {
			candidates = append(candidates, s)
		}
	}
	if !isFunction {
		candidates = statements[bare]
	}
	if len(candidates) == 0 {
		return "", fmt.Errorf("%s stands in no migration", name)
	}
	text := candidates[len(candidates)-1] // the last migration's
	text = create.ReplaceAllString(text, "CREATE OR REPLACE $1 $2")
	rights := ""
	if isFunction {
		rights = fmt.Sprintf("REVOKE ALL ON FUNCTION %s FROM PUBLIC;\n", name)
		if d.Public {
			rights = grantExecute(name) + "\n"
		}
	}
	return "BEGIN;\nSET LOCAL search_path = pg_catalog, pg_temp;\n" + text + rights + "COMMIT;\n", nil
}

// sources are the statements of all migrations, in their order, by the name of what they
// create.
func sources() (map[string][]string, error) {
	files, err := fs.Glob(migrations.FS, "*.up.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	byName := make(map[string][]string)
	for _, file := range files {
		text, err := fs.ReadFile(migrations.FS, file)
		if err != nil {
			return nil, err
		}
		script := string(text)
		for _, at := range create.FindAllStringSubmatchIndex(script, -1) {
			name := script[at[4]:at[5]]
			byName[name] = append(byName[name], statement(script[at[0]:]))
		}
	}
	return byName, nil
}

// statement is the first statement of a script. The migrations are laid out so that its
// last line tells.
func statement(script string) string {
	var text strings.Builder
	end := ";"
	for line := range strings.Lines(script) {
		text.WriteString(line)
		switch code := strings.TrimRight(line, "\n"); {
		case code == "AS $$":
			end = "$$;"
		case code == "BEGIN ATOMIC":
			end = "END;"
		case end == ";" && strings.HasSuffix(strings.SplitN(code, " --", 2)[0], ";"), code == end:
			return text.String()
		}
	}
	return text.String()
}

var outArgument = regexp.MustCompile(`(?m)(^|[(,])\s*OUT\s`)

// countArguments is how many a function takes whose declaration starts in text.
func countArguments(text string) int {
	_, list, _ := strings.Cut(text, "(")
	list, _, _ = strings.Cut(list, ")")
	if strings.TrimSpace(list) == "" {
		return 0
	}
	return strings.Count(list, ",") + 1 - len(outArgument.FindAllString(list, -1))
}
