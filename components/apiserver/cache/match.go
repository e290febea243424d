package cache

import (
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// matcher is a predicate made ready to be asked often.
type matcher struct {
	prefix string // of the keys
	label  labels.Selector
	fields []fieldTest
	late   *late // nil if all can be told at once
}

type fieldTest struct {
	field string
	value func(api.Object) string
	want  string
	not   bool
}

func newMatcher(kind *api.Kind, keys keyLayout, namespace string, p Predicate) matcher {
	m := matcher{prefix: keys.scope(namespace)}
	if p.Label != nil && !p.Label.Empty() {
		m.label = p.Label
	}
	if p.Field != nil && !p.Field.Empty() {
		for _, r := range p.Field.Requirements() {
			m.fields = append(m.fields, fieldTest{
				field: r.Field, value: fieldOf(kind, r.Field), want: r.Value, not: r.Operator == selection.NotEquals,
			})
		}
	}
	m.putOff(kind, p.In)
	return m
}

// fieldOf returns how the value of a selectable field is had; of an unknown field it is "".
func fieldOf(kind *api.Kind, field string) func(api.Object) string {
	switch field {
	case "metadata.name":
		return func(o api.Object) string { return o.GetName() }
	case "metadata.namespace":
		return func(o api.Object) string { return o.GetNamespace() }
	}
	if value := kind.Fields[field]; value != nil {
		return value
	}
	return func(api.Object) string { return "" }
}

// all reports whether the matcher takes every object with its prefix.
func (m *matcher) all() bool { return m.label == nil && len(m.fields) == 0 && m.late == nil }

// matches tells whether an object is chosen, as far as that can be told at once (see takes).
func (m *matcher) matches(e *Entry) bool {
	return e != nil && strings.HasPrefix(e.Key, m.prefix) && chosen(e.Object, m.label, m.fields)
}

func chosen(obj api.Object, label labels.Selector, fields []fieldTest) bool {
	for i := range fields {
		t := &fields[i]
		if (t.value(obj) == t.want) == t.not {
			return false
		}
	}
	return label == nil || label.Matches(labels.Set(obj.GetLabels()))
}

// event translates a change for this matcher; ok is false if it concerns nothing that it has seen or can see.
func (m *matcher) event(c *change) (e Event, ok bool) {
	is, was := m.matches(c.entry), m.matches(c.prev)
	if m.late != nil && (is || was) {
		return Event{undecided: c}, true
	}
	return c.seen(is, was)
}

// seen is the change for a watcher that matches the object now, or matched it before, or neither.
func (c *change) seen(is, was bool) (e Event, ok bool) {
	switch {
	case is && was:
		return Event{Type: Modified, Entry: c.entry}, true
	case is:
		return Event{Type: Added, Entry: c.entry}, true
	case was:
		return Event{Type: Deleted, Entry: c.lost()}, true
	}
	return Event{}, false
}

// required returns the value that the field must have, if the matcher wants a certain one.
func (m *matcher) required(field string) (string, bool) {
	for _, t := range m.fields {
		if t.field == field && !t.not {
			return t.want, true
		}
	}
	return "", false
}

// narrowed is the prefix of the keys that can match at all.
func (m *matcher) narrowed(keys keyLayout, namespace string) string {
	if namespace != "" || !keys.namespaced {
		return m.prefix
	}
	if only, ok := m.required("metadata.namespace"); ok {
		return keys.scope(only)
	}
	return m.prefix
}

// key returns the only key that can match, if the matcher names an object.
func (m *matcher) key(keys keyLayout, namespace string) (string, bool) {
	name, ok := m.required("metadata.name")
	if !ok {
		return "", false
	}
	if !keys.namespaced {
		return keys.key("", name), true
	}
	if namespace == "" {
		if namespace, ok = m.required("metadata.namespace"); !ok {
			return "", false
		}
	}
	return keys.key(namespace, name), true
}
