// Package display is how the command line and the demo show IDs to people.
package display

import (
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// TimeFormat is RFC 3339 with the milliseconds that an ID holds.
const TimeFormat = "2006-01-02T15:04:05.000Z07:00"

// NewTable is a table of pgid's looks, with headers as they are written.
func NewTable(headers ...any) table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.AppendHeader(headers)
	return t
}
