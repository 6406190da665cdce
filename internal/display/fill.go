package display

import (
	"fmt"
	"os"
	"strings"
)

// Fill puts a text into a Markdown file, between the marks that it has for it:
//
//	<!-- name -->
//	...
//	<!-- end of name -->
func Fill(file, name, text string) error {
	start, end := fmt.Sprintf("<!-- %s -->\n", name), fmt.Sprintf("<!-- end of %s -->\n", name)
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, opened := strings.Cut(string(old), start)
	_, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		return fmt.Errorf("%s has no place for this: write %s, and %s further down", file, strings.TrimSpace(start), strings.TrimSpace(end))
	}
	filled := before + start + strings.TrimSpace(text) + "\n" + end + after
	if filled == string(old) {
		return nil
	}
	return os.WriteFile(file, []byte(filled), 0o644)
}
