package score

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// managed is an entry of managed fields.
type managed struct {
	Manager     string          `json:"manager"`
	Operation   string          `json:"operation"`
	Subresource string          `json:"subresource"`
	Time        string          `json:"time"`
	Fields      json.RawMessage `json:"fieldsV1"`
}

func (m *managed) writer() Writer {
	return Writer{Manager: m.Manager, Operation: m.Operation, Subresource: m.Subresource}
}

// owns tells whether the manager owns the field of a path, or what it is in, or what is in it.
func (m *managed) owns(path []step) bool {
	var set map[string]any
	return json.Unmarshal(m.Fields, &set) == nil && ownsIn(set, path)
}

func ownsIn(set map[string]any, path []step) bool {
	if len(path) == 0 {
		return true
	}
	if !path[0].item {
		child, ok := set["f:"+path[0].field].(map[string]any)
		return ok && (len(child) == 0 || ownsIn(child, path[1:]))
	}
	for name, child := range set {
		inside, ok := child.(map[string]any)
		if ok && path[0].is(name) && (len(inside) == 0 || ownsIn(inside, path[1:])) {
			return true
		}
	}
	return false
}

// is tells whether an item of a list may be the one that a key of managed fields names. Items that the diff identifies
// in another way than managed fields may be any.
func (s step) is(name string) bool {
	text, ok := strings.CutPrefix(name, "k:")
	if !ok {
		return strings.HasPrefix(name, "v:") || strings.HasPrefix(name, "i:")
	}
	var key map[string]any
	if json.Unmarshal([]byte(text), &key) != nil {
		return false
	}
	value, has := key[s.key]
	return !has || value == s.value
}

// apiServer is the writer of what is written without a field manager.
var apiServer = Writer{Manager: "kube-apiserver"}

// writersOf finds who made changes: the managers whose entries are new or have another time; where there are none, as
// times are seconds, those that own what changed.
func writersOf(before, after []managed, changes []change) []managed {
	wrote := func(m managed) bool { return !slices.ContainsFunc(before, m.sameTime) }
	owns := func(m managed) bool {
		return slices.ContainsFunc(changes, func(c change) bool { return m.owns(c.path) })
	}
	reshaped := func(m managed) bool { return !slices.ContainsFunc(before, m.sameFields) }
	lost := func(m managed) bool { // it gave up or removed a field that changed
		i := slices.IndexFunc(before, m.sameManager)
		return i >= 0 && reshaped(m) && slices.ContainsFunc(changes, func(c change) bool { return before[i].owns(c.path) })
	}
	gained := func(m managed) bool { return reshaped(m) && owns(m) }
	for i, rule := range []func(managed) bool{wrote, gained, owns, lost} {
		found := matching(after, rule)
		if i > 0 { // others may own the same fields, or have lost them to the writer
			found = latest(found)
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

func matching(all []managed, rule func(managed) bool) []managed {
	return slices.DeleteFunc(slices.Clone(all), func(m managed) bool { return !rule(m) })
}

// latest are those with the last time of all. Times are RFC 3339 in UTC, and in the order of their texts.
func latest(all []managed) []managed {
	last := ""
	for _, m := range all {
		last = max(last, m.Time)
	}
	return matching(all, func(m managed) bool { return m.Time == last })
}

func (m *managed) sameManager(o managed) bool {
	return m.Manager == o.Manager && m.Operation == o.Operation && m.Subresource == o.Subresource
}

func (m *managed) sameTime(o managed) bool { return m.sameManager(o) && m.Time == o.Time }

func (m *managed) sameFields(o managed) bool { return m.sameTime(o) && bytes.Equal(m.Fields, o.Fields) }
