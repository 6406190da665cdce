package doctor

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5"
)

// ident quotes a name for SQL, where it must be.
func ident(name string) string {
	plain := name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == "" && !strings.ContainsAny(name[:1], "0123456789")
	if plain && !slices.Contains(keywords, name) {
		return name
	}
	if strings.IndexFunc(name, unicode.IsControl) < 0 {
		return pgx.Identifier{name}.Sanitize()
	}
	var quoted strings.Builder
	for _, r := range name { // on one line, and harmless to a terminal
		switch {
		case unicode.IsControl(r):
			fmt.Fprintf(&quoted, `\%04x`, r)
		case r == '"' || r == '\\':
			quoted.WriteString(string([]rune{r, r}))
		default:
			quoted.WriteRune(r)
		}
	}
	return `U&"` + quoted.String() + `"`
}

// keywords are the words that name a table or column only in quotes, as of PostgreSQL 19.
var keywords = strings.Fields(`
	all analyse analyze and any array as asc asymmetric authorization binary both case cast check
	collate collation column concurrently constraint create cross current_catalog current_date
	current_role current_schema current_time current_timestamp current_user default deferrable desc
	distinct do else end except false fetch for foreign freeze from full grant group having ilike in
	initially inner intersect into is isnull join lateral leading left like limit localtime
	localtimestamp natural not notnull null offset on only or order outer overlaps placing primary
	references returning right select session_user similar some symmetric system_user table tablesample
	then to trailing true union unique user using variadic verbose when where window with`)

// literal quotes a text for SQL.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
