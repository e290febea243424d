package score

import (
	"fmt"
	"strings"
)

// Line is the entry as one line of text: time, writers, verb, object, what changed and why.
func (e Entry) Line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%9.3fs  %-24s %-9s %s", e.At/1000, e.writers(), e.Verb, e.Object)
	if e.Missed {
		b.WriteString("  [found by listing]")
	}
	if e.Why != "" {
		b.WriteString("  " + strings.ReplaceAll(e.Why, "\n", " "))
	}
	if len(e.Fields) > 0 {
		b.WriteString("  {" + e.fields() + "}")
	}
	return b.String()
}

// String is how a writer is shown: by its name and the subresource.
func (w Writer) String() string {
	if w.Subresource == "" {
		return w.Manager
	}
	return w.Manager + "/" + w.Subresource
}

func (e Entry) writers() string {
	names := make([]string, len(e.Writers))
	for i, w := range e.Writers {
		names[i] = w.String()
	}
	return strings.Join(names, ", ")
}

// fields are the first few fields, with their values.
func (e Entry) fields() string {
	const few = 4
	var out []string
	for _, f := range e.Fields[:min(few, len(e.Fields))] {
		text := f.Path
		if f.From != "" || f.To != "" {
			text += ": " + orNone(f.From) + " → " + orNone(f.To)
		}
		out = append(out, text)
	}
	if more := len(e.Fields) - len(out) + e.MoreFields; more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return strings.Join(out, ", ")
}

func orNone(value string) string {
	if value == "" {
		return "none"
	}
	return value
}
