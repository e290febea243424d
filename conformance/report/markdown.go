package report

import (
	"fmt"
	"io"
	"strings"
)

// WriteMarkdown writes a summary for people who read it in a pull request: totals, a table per component, and the
// reasons of what did not pass.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Conformance of %s\n\n", r.Cluster.Name)
	fmt.Fprintf(&b, "**%s**. %s, Kubernetes %s, %d nodes. Suite %s (%s), %s, in %.1f s on %s.\n\n", r.Result(),
		r.Cluster.Server, r.Cluster.Version, len(r.Cluster.Nodes), r.Suite.Version, r.Suite.Digest,
		r.Started.UTC().Format("2006-01-02 15:04 UTC"), r.Seconds, r.Machine)
	profileTable(&b, r.Profiles)
	b.WriteString("| component |")
	for _, o := range Outcomes() {
		fmt.Fprintf(&b, " %s |", o)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(Outcomes())) + "\n")
	components := r.Components()
	for _, component := range components {
		row(&b, component.Name, component.Totals)
	}
	row(&b, "**all**", r.Totals())
	for _, component := range components {
		fmt.Fprintf(&b, "\n## %s\n\n| case | outcome | seconds | requirement |\n|---|---|---|---|\n", component.Name)
		for _, c := range component.Cases {
			fmt.Fprintf(&b, "| `%s` | %s | %.2f | [%s](%s) |\n", c.ID, c.Outcome, c.Seconds, escapeCell(c.Requirement),
				c.Reference)
		}
	}
	reasons(&b, r.Cases)
	_, err := io.WriteString(w, b.String())
	return err
}

func profileTable(b *strings.Builder, profiles []Profile) {
	b.WriteString("| profile | result | core passed | extended passed | why |\n|---|---|---|---|---|\n")
	for _, p := range profiles {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", p.Name, p.Result, p.Core.share(), p.Extended.share(),
			escapeCell(p.Reason))
	}
	b.WriteString("\n")
}

func row(b *strings.Builder, name string, totals Totals) {
	fmt.Fprintf(b, "| %s |", name)
	for _, o := range Outcomes() {
		fmt.Fprintf(b, " %d |", totals[o])
	}
	b.WriteString("\n")
}

func reasons(b *strings.Builder, cases []Case) {
	for _, c := range cases {
		if c.Outcome == Failed || c.Outcome == Inconclusive || c.Outcome == Flaky {
			fmt.Fprintf(b, "\n### %s: %s\n\n````\n%s\n````\n", c.Outcome, c.ID, strings.TrimSpace(c.Reason))
		}
	}
}

func escapeCell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
