package score

import (
	"bytes"
	"encoding/json"
	"strings"
)

// scanner cuts the head out of an object without decoding it. It knows JSON as API servers write it: what is unusual
// (escapes, bytes that are not ASCII, names in other letters, wrong types) sets odd, and encoding/json is asked
// instead. The text must be valid JSON up to the end of the metadata; it is not checked for that.
type scanner struct {
	raw []byte
	at  int
	odd bool
}

// scanHead is headOf for objects that are written as usual; ok is false for others. The managed fields are parts of
// raw.
func scanHead(raw []byte) (h head, ok bool) {
	s := scanner{raw: raw}
	found := false
	s.members(func(name []byte) bool {
		if string(name) == "metadata" {
			found = true
			s.metadata(&h)
			return false
		}
		s.skip()
		return true
	})
	return h, found && !s.odd
}

func (s *scanner) metadata(h *head) {
	s.members(func(name []byte) bool {
		switch string(name) {
		case "name":
			s.text(&h.Name)
		case "namespace":
			s.text(&h.Namespace)
		case "uid":
			s.text(&h.UID)
		case "resourceVersion":
			s.text(&h.ResourceVersion)
		case "creationTimestamp":
			s.odd = h.CreationTimestamp.UnmarshalJSON(s.skip()) != nil || s.odd
		case "ownerReferences":
			s.odd = s.odd || h.OwnerReferences != nil
			s.items(func() {
				var o Owner
				s.owner(&o)
				h.OwnerReferences = append(h.OwnerReferences, o)
			})
		case "managedFields":
			s.odd = s.odd || h.ManagedFields != nil
			s.items(func() {
				var m managed
				s.managed(&m)
				h.ManagedFields = append(h.ManagedFields, m)
			})
		default:
			s.unknown(name, "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "ownerReferences",
				"managedFields")
		}
		return true
	})
}

func (s *scanner) owner(o *Owner) {
	s.members(func(name []byte) bool {
		switch string(name) {
		case "kind":
			s.text(&o.Kind)
		case "name":
			s.text(&o.Name)
		case "uid":
			s.text(&o.UID)
		case "controller":
			value := string(s.skip())
			o.Controller = value == "true"
			s.odd = s.odd || !o.Controller && value != "false"
		default:
			s.unknown(name, "kind", "name", "uid", "controller")
		}
		return true
	})
}

func (s *scanner) managed(m *managed) {
	s.members(func(name []byte) bool {
		switch string(name) {
		case "manager":
			s.text(&m.Manager)
		case "operation":
			s.text(&m.Operation)
		case "subresource":
			s.text(&m.Subresource)
		case "time":
			s.text(&m.Time)
		case "fieldsV1":
			m.Fields = s.skip()
		default:
			s.unknown(name, "manager", "operation", "subresource", "time", "fieldsV1")
		}
		return true
	})
}

// unknown skips the value of a name, which encoding/json would take for one of known if it differed in case only.
func (s *scanner) unknown(name []byte, known ...string) {
	for _, k := range known {
		s.odd = s.odd || len(k) == len(name) && strings.EqualFold(k, string(name))
	}
	s.skip()
}

// members calls visit with the name of each member of an object, until it returns false. visit consumes the value.
func (s *scanner) members(visit func(name []byte) bool) {
	if !s.take('{') {
		s.odd = true
		return
	}
	if s.take('}') {
		return
	}
	for !s.odd {
		name := s.plain()
		if !s.take(':') {
			s.odd = true
		}
		if s.odd || !visit(name) {
			return
		}
		if s.take('}') {
			return
		}
		s.odd = s.odd || !s.take(',')
	}
}

// items calls visit for each item of a list, which it consumes.
func (s *scanner) items(visit func()) {
	if !s.take('[') {
		s.odd = true
		return
	}
	for !s.odd && !s.take(']') {
		visit()
		s.odd = s.odd || !s.take(',') && s.next() != ']'
	}
}

// text reads a string. A null is odd, as all that is not one is.
func (s *scanner) text(into *string) { *into = string(s.plain()) }

// plain reads a string that stands for itself, and returns its part of raw.
func (s *scanner) plain() []byte {
	if !s.take('"') {
		s.odd = true
		return nil
	}
	length := bytes.IndexByte(s.raw[s.at:], '"')
	if length < 0 {
		s.odd = true
		return nil
	}
	text := s.raw[s.at : s.at+length]
	for _, c := range text {
		s.odd = s.odd || c == '\\' || c < ' ' || c >= 0x80
	}
	s.at += length + 1
	return text
}

// skip passes over a value and returns its part of raw.
func (s *scanner) skip() json.RawMessage {
	s.next() // passes over white space
	begin, depth := s.at, 0
	for s.at < len(s.raw) {
		switch s.raw[s.at] {
		case '"':
			s.skipString()
			if depth == 0 {
				return s.raw[begin:s.at]
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				s.at++
				return s.raw[begin:s.at]
			}
		}
		if depth <= 0 && strings.IndexByte(",}] \t\r\n", s.raw[s.at]) >= 0 { // after a number or a literal
			return s.raw[begin:s.at]
		}
		s.at++
	}
	s.odd = true
	return nil
}

func (s *scanner) skipString() {
	for s.at++; s.at < len(s.raw); s.at++ {
		if c := s.raw[s.at]; c == '"' {
			s.at++
			return
		} else if c == '\\' {
			s.at++
		}
	}
	s.odd = true
}

// take passes over a byte, if it comes next.
func (s *scanner) take(c byte) bool {
	if s.next() != c {
		return false
	}
	s.at++
	return true
}

// next is the byte that comes after white space; 0 at the end.
func (s *scanner) next() byte {
	for ; s.at < len(s.raw); s.at++ {
		switch c := s.raw[s.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}
