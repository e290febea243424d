package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"strings"
)

// WriteText writes the comparison as lines for a terminal.
func (c *Comparison) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, warning := range []string{c.NotComparable, c.TimesNotComparable} {
		if warning != "" {
			fmt.Fprintf(&b, "! %s\n", strings.ReplaceAll(warning, "\n", "\n  "))
		}
	}
	table := func(title string, rows []Difference) {
		if len(rows) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n%s\n", title)
		for _, d := range rows {
			fmt.Fprintf(&b, "  %-34s %s -> %s\n", d.What, cmp.Or(d.Before, "-"), cmp.Or(d.After, "-"))
		}
	}
	table("What was tested", c.Subjects)
	table("Profiles", c.Profiles)
	if len(c.Changes) == 0 {
		b.WriteString("\nNo outcome differs.\n")
	} else {
		fmt.Fprintf(&b, "\nOutcomes\n")
	}
	for _, change := range c.Changes {
		mark := " "
		if change.Worse() {
			mark = "!"
		}
		fmt.Fprintf(&b, "%s %-34s %s -> %s", mark, change.ID, cmp.Or(change.Before, "-"), cmp.Or(change.After, "-"))
		if change.Reason != "" && change.After != Passed {
			fmt.Fprintf(&b, "  %s", firstLine(change.Reason))
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

//go:embed compare.html
var comparePage string

// WriteHTML writes the comparison of two reports as a page that needs nothing but itself.
func (c *Comparison) WriteHTML(w io.Writer, before, after *Report) error {
	return WritePage(w, comparePage, struct {
		*Comparison
		Before, After *Report
	}{c, before, after}, nil)
}
