package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

var (
	//go:embed page.html
	page string
	//go:embed style.html
	style string // of all pages
)

// WriteHTML writes a page that needs nothing but itself: results per component and case, and each flow as a sequence
// diagram with its milestones.
func (r *Report) WriteHTML(w io.Writer) error {
	return WritePage(w, page, r, nil)
}

// WritePage fills in a page that looks like all others. It has the functions of reports, and its own.
func WritePage(w io.Writer, page string, data any, functions template.FuncMap) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"sequence":   sequence,
		"milestones": milestones,
		"firstLine":  firstLine,
		"outcomes":   Outcomes,
		"class":      Result.outcome,
		"share":      Totals.share,
		"percent": func(part int, whole int) string {
			return fmt.Sprintf("%.3f%%", 100*float64(part)/float64(max(whole, 1)))
		},
		"seconds": func(s float64) string { return fmt.Sprintf("%.2f s", s) },
	}).Funcs(functions).Parse(style)
	if err == nil {
		t, err = t.New("body").Parse(page)
	}
	if err != nil {
		return err
	}
	return t.Execute(w, data)
}

// outcome is the one whose colour a result has.
func (r Result) outcome() Outcome {
	switch r {
	case ResultConformant:
		return Passed
	case ResultFailed:
		return Failed
	case ResultInconclusive:
		return Inconclusive
	case ResultUnsupported:
		return NotSupported
	}
	return Skipped
}
