// Package show helps to write the cells of Tables: what kubectl get prints.
package show

import (
	"cmp"
	"fmt"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// None, Unknown and Unset stand for what isn't there.
const (
	None    = "<none>"
	Unknown = "<unknown>"
	Unset   = "<unset>"
)

// Columns collects the definitions of a Table's columns.
type Columns []metav1.TableColumnDefinition

// Name starts the columns with that of the object's name.
func Name() Columns {
	return Columns{{Name: "Name", Type: "string", Format: "name",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}}
}

// String appends a column of text that is always shown.
func (c Columns) String(name, description string) Columns {
	return append(c, metav1.TableColumnDefinition{Name: name, Type: "string", Description: description})
}

// NameOf appends a column with the name of another object.
func (c Columns) NameOf(name, description string) Columns {
	return append(c, metav1.TableColumnDefinition{Name: name, Type: "string", Format: "name", Description: description})
}

// Wide appends a column of text that is shown on request (kubectl get -o wide).
func (c Columns) Wide(name, description string) Columns {
	return append(c, metav1.TableColumnDefinition{Name: name, Type: "string", Priority: 1, Description: description})
}

// Of appends a column of another type: integer, boolean, date.
func (c Columns) Of(kind, name, description string) Columns {
	return append(c, metav1.TableColumnDefinition{Name: name, Type: kind, Description: description})
}

// Age appends the column of the object's age.
func (c Columns) Age() Columns {
	return append(c, metav1.TableColumnDefinition{Name: "Age", Type: "string",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]})
}

// Labels writes a map as key=value pairs.
func Labels(m map[string]string) string {
	if len(m) == 0 {
		return None
	}
	out := make([]string, 0, len(m))
	for k, v := range m {
		out = append(out, k+"="+v)
	}
	sort.Strings(out)
	return strings.Join(out, ",")
}

// Selector writes a label selector in the form of a query.
func Selector(s *metav1.LabelSelector) string { return metav1.FormatLabelSelector(s) }

// OrNone is s, or the sign for nothing.
func OrNone(s string) string {
	if s == "" {
		return None
	}
	return s
}

// Or returns what p points to, or a fallback.
func Or[T any](p *T, fallback T) T {
	if p == nil {
		return fallback
	}
	return *p
}

// Join joins, or gives the sign for nothing.
func Join[T ~string](list []T, sep string) string {
	if len(list) == 0 {
		return None
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return strings.Join(out, sep)
}

// few is how many items of a long list are shown.
const few = 3

// Few joins the first items of a list and tells how many more there are; empty stands for what comes out empty.
func Few(list []string, empty string) string {
	if len(list) > few {
		return fmt.Sprintf("%s + %d more...", strings.Join(list[:few], ","), len(list)-few)
	}
	return cmp.Or(strings.Join(list, ","), empty)
}
