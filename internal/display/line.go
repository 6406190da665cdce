package display

import (
	"fmt"
	"io"
)

const clearLine = "\r\x1b[K" // of a terminal

// A Line is the last line of a terminal, where progress is shown. A nil Line shows
// nothing.
type Line struct{ w io.Writer }

// NewLine is a line on w, a terminal; nil where w is nil, for nobody watches.
func NewLine(w io.Writer) *Line {
	if w == nil {
		return nil
	}
	return &Line{w}
}

// Show replaces what the line says.
func (l *Line) Show(format string, args ...any) {
	if l != nil {
		_, _ = fmt.Fprintf(l.w, clearLine+format, args...)
	}
}

// Clear empties the line.
func (l *Line) Clear() {
	if l != nil {
		_, _ = fmt.Fprint(l.w, clearLine)
	}
}
