package cache

import (
	"k8s.io/apimachinery/pkg/labels"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// late is the part of a predicate that is about an object in the version of the request, where a webhook converts to
// it: a call may take long, may fail, and may change all but the name. It is never evaluated with c.mu held: watchers
// take all changes of the objects that may match, and decide in the goroutine of Next.
type late struct {
	kind    *api.Kind
	version *api.Version
	label   labels.Selector
	fields  []fieldTest
}

// ofNames tells of fields that are the same in all versions.
func ofNames(field string) bool { return field == "metadata.name" || field == "metadata.namespace" }

// putOff takes out of the matcher what has to be decided late, if there is anything of the kind.
func (m *matcher) putOff(kind *api.Kind, version *api.Version) {
	if version == nil || kind.Custom == nil || !kind.Custom.Remote {
		return
	}
	l := &late{kind: kind, version: version, label: m.label}
	var early []fieldTest
	for _, t := range m.fields {
		if ofNames(t.field) {
			early = append(early, t)
		} else {
			l.fields = append(l.fields, t)
		}
	}
	if l.label != nil || len(l.fields) > 0 {
		m.label, m.fields, m.late = nil, early, l
	}
}

// takes tells whether the object is chosen. It must not be called with c.mu held.
func (m *matcher) takes(e *Entry) (bool, error) {
	if !m.matches(e) {
		return false, nil
	}
	if m.late == nil {
		return true, nil
	}
	obj, err := e.In(m.late.kind, m.late.version)
	if err != nil {
		return false, err
	}
	return chosen(obj, m.late.label, m.late.fields), nil
}

// decide turns the changes that were queued undecided into events. A watch can't continue past a change that can't be
// decided.
func (m *matcher) decide(events []Event, err error) ([]Event, error) {
	if m.late == nil || err != nil {
		return events, err
	}
	decided := events[:0]
	for _, e := range events {
		if e.undecided == nil {
			decided = append(decided, e)
			continue
		}
		is, err := m.takes(e.undecided.entry)
		if err != nil {
			return nil, err
		}
		was, err := m.takes(e.undecided.prev)
		if err != nil {
			return nil, err
		}
		if e, ok := e.undecided.seen(is, was); ok {
			decided = append(decided, e)
		}
	}
	return decided, nil
}
