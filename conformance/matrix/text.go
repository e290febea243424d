package matrix

import (
	"fmt"
	"io"
	"strings"

	"quintet.dev/quintet/conformance/report"
)

// symbol is an outcome in a column of the terminal.
func symbol(o report.Outcome) string {
	switch o {
	case report.Passed:
		return "ok"
	case report.NotSupported:
		return "n/a"
	case report.Skipped:
		return "-"
	case report.Inconclusive:
		return "???"
	}
	return strings.ToUpper(string(o))
}

// WriteText writes the matrix as a table for a terminal: a row per case that differs between cells, or per case with
// all, a column per cell.
func (m *Matrix) WriteText(w io.Writer, all bool) error {
	var b strings.Builder
	for i, cell := range m.Cells {
		fmt.Fprintf(&b, "%2d  %-13s %s", i, cell.Result, cell.Name)
		for _, broken := range cell.Broken {
			fmt.Fprintf(&b, "; breaks %d of %s", len(broken.Cases), broken.Component)
		}
		b.WriteString("\n")
		if cell.Reason != "" {
			fmt.Fprintf(&b, "      %s\n", strings.ReplaceAll(cell.Reason, "\n", "\n      "))
		}
	}
	fmt.Fprintf(&b, "\n%-36s", "case")
	for i := range m.Cells {
		fmt.Fprintf(&b, " %-7d", i)
	}
	b.WriteString("\n")
	same := 0
	for _, c := range m.Cases {
		if !all && !c.Differs() {
			same++
			continue
		}
		fmt.Fprintf(&b, "%-36s", c.ID)
		for _, r := range c.Results {
			fmt.Fprintf(&b, " %-7s", symbol(r.Outcome))
		}
		b.WriteString("\n")
	}
	if same > 0 {
		noun := "cases"
		if same == 1 {
			noun = "case"
		}
		fmt.Fprintf(&b, "%d %s came out the same in every cell.\n", same, noun)
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}
