package doctor

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A definition is a function or view of the schema pgid.
type definition struct {
	Name   string `json:"name"` // with its arguments' types
	Hash   string `json:"hash"`
	Public bool   `json:"public,omitempty"` // everybody may call it
}

var (
	//go:embed definitions.sql
	readDefinitions string

	//go:embed definitions.json
	definitionsJSON []byte
)

// installed are the definitions that the migrations bring, by name.
func installed() (map[string]definition, error) {
	var list []definition
	if err := json.Unmarshal(definitionsJSON, &list); err != nil {
		return nil, fmt.Errorf("definitions.json: %w", err)
	}
	byName := make(map[string]definition, len(list))
	for _, d := range list {
		byName[d.Name] = d
	}
	return byName, nil
}

// data are the functions whose bodies are the state of an installation.
var data = []string{
	"pgid.sequences()", "pgid.base_sequence(integer)", "pgid.counter_sequence(integer)",
	"pgid.epoch_ms()", "pgid.max_lead_ms()", "pgid.max_wait_ms()",
}

// checkDefinitions compares what stands with what this program's migrations bring.
func (e *exam) checkDefinitions(ctx context.Context) error {
	want, err := installed()
	if err != nil {
		return err
	}
	found, err := collect[definition](ctx, e, readDefinitions)
	if err != nil {
		return err
	}
	before := len(e.findings)
	missing := maps.Clone(want)
	for _, d := range found {
		expected, known := want[d.Name]
		switch {
		case !known:
			e.addExtra(d.Name, want)
		case d.Hash != expected.Hash && !slices.Contains(data, d.Name):
			e.add(Error, restore(d.Name), "%s is not as version %d installs it", d.Name, e.schema.version)
		}
		delete(missing, d.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		fix := restore(name)
		if strings.HasSuffix(name, "sequence(integer)") || name == "pgid.sequences()" {
			fix = refreshLookup
		}
		also := ""
		if strings.HasPrefix(name, "pgid.next_id(") {
			also = "; if it was dropped with CASCADE, so were the column defaults that call it: set them again"
		}
		e.add(Error, fix, "%s is missing%s", name, also)
	}
	if len(e.findings) == before {
		e.ok("%d functions and views are as version %d installs them", len(found), e.schema.version)
	}
	return nil
}

func (e *exam) addExtra(name string, want map[string]definition) {
	kind := "VIEW"
	if strings.HasSuffix(name, ")") {
		kind = "FUNCTION"
	}
	bare, _, _ := strings.Cut(name, "(")
	for ours := range maps.Keys(want) {
		if strings.HasPrefix(ours, bare+"(") {
			e.add(Error, fmt.Sprintf("DROP %s %s;", kind, name), "%s is not pgid's, and may be called in place of %s", name, ours)
			return
		}
	}
	e.add(Warning, fmt.Sprintf("DROP %s %s;", kind, name), "%s is not pgid's: the schema pgid is for nothing else", name)
}

// restore is the command that puts a function or view back.
func restore(name string) string {
	return fmt.Sprintf(`pgid doctor --definition '%s' | psql -X -v ON_ERROR_STOP=1 "$DATABASE_URL"`, name)
}
