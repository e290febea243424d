package score

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed compare.html
var compareText string

var compareTemplate = template.Must(template.New("compare").Funcs(template.FuncMap{"ms": milliseconds}).
	Parse(compareText))

// WriteHTML writes the comparison as a page that needs nothing else.
func (c *Comparison) WriteHTML(w io.Writer) error { return compareTemplate.Execute(w, c) }

// WriteText writes what differs, for people.
func (c *Comparison) WriteText(w io.Writer) error {
	differing := c.Differing()
	if _, err := fmt.Fprintf(w, "%d of %d objects differ; %d and %d entries in %s and %s\n", len(differing),
		len(c.Objects), c.Entries[0], c.Entries[1], milliseconds(c.Took[0]), milliseconds(c.Took[1])); err != nil {
		return err
	}
	if c.Dropped != [2]int{} {
		if _, err := fmt.Fprintf(w, "not complete: %d and %d entries were dropped\n", c.Dropped[0],
			c.Dropped[1]); err != nil {
			return err
		}
	}
	for _, o := range differing {
		if _, err := fmt.Fprintln(w, o.Object); err != nil {
			return err
		}
		for _, d := range o.Differences {
			if _, err := fmt.Fprintln(w, "  "+d); err != nil {
				return err
			}
		}
	}
	return nil
}
