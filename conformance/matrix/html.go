package matrix

import (
	_ "embed"
	"io"
	"slices"

	"quintet.dev/quintet/conformance/report"
)

//go:embed matrix.html
var page string

// group is the cases of a component.
type group struct {
	Component string
	Cases     []Case
	Differ    int
}

// groups are the cases by component, in their order.
func (m *Matrix) groups() []group {
	var out []group
	for _, c := range m.Cases {
		at := slices.IndexFunc(out, func(g group) bool { return g.Component == c.Component })
		if at < 0 {
			at = len(out)
			out = append(out, group{Component: c.Component})
		}
		out[at].Cases = append(out[at].Cases, c)
		if c.Differs() {
			out[at].Differ++
		}
	}
	return out
}

// brokenOf counts the cases of a component that hold in the base and not in the cell.
func (c Cell) brokenOf(component string) int {
	for _, broken := range c.Broken {
		if broken.Component == component {
			return len(broken.Cases)
		}
	}
	return 0
}

// WriteHTML writes a page that needs nothing but itself: whose component breaks whose case.
func (m *Matrix) WriteHTML(w io.Writer) error {
	return report.WritePage(w, page, struct {
		*Matrix
		Groups []group
	}{m, m.groups()}, map[string]any{"brokenOf": Cell.brokenOf, "breaks": Case.Breaks})
}
