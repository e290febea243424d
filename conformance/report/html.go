package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed page.html
var page string

// WriteHTML writes a page that needs nothing but itself: results per component and case, and each flow as a sequence
// diagram with its milestones.
func (r *Report) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"sequence":   sequence,
		"milestones": milestones,
		"firstLine":  firstLine,
		"outcomes":   Outcomes,
		"percent": func(part int, whole int) string {
			return fmt.Sprintf("%.3f%%", 100*float64(part)/float64(max(whole, 1)))
		},
		"seconds": func(s float64) string { return fmt.Sprintf("%.2f s", s) },
	}).Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(w, r)
}
