package alike

import (
	"hash/maphash"
	mathbits "math/bits"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// sum tells values apart. Those that are identical, as package equality says, have the same.
type sum struct {
	hash   uint64
	bytes  int // that they take, about
	opaque bool
}

var seed = maphash.MakeSeed()

func (s *sum) mix(x uint64) { s.hash = mathbits.RotateLeft64(s.hash^x, 23) * 0x9e3779b97f4a7c15 }

func (s *sum) text(x string) {
	if s.bytes += len(x); s.bytes <= mostBytes {
		s.mix(maphash.String(seed, x))
	}
}

// What stands for nothing, and for something that follows.
const (
	nothing = iota + 1
	something
)

// add adds the value at a place to the sum.
func (f *form) add(s *sum, p unsafe.Pointer) {
	if s.opaque || s.bytes > mostBytes {
		return
	}
	switch f.kind {
	case opaque:
		s.opaque = true
	case bits:
		s.mix(word(p, f.size))
	case text:
		s.text(*(*string)(p))
	case quantity:
		s.quantity((*resource.Quantity)(p))
	case moment:
		s.mix(uint64((*time.Time)(p).UnixNano()))
	case structure:
		for i := range f.fields {
			x := &f.fields[i]
			x.form.add(s, unsafe.Add(p, x.offset))
		}
	case pointer:
		to := *(*unsafe.Pointer)(p)
		if to == nil {
			s.mix(nothing)
			return
		}
		s.mix(something)
		s.bytes += int(f.elem.size)
		f.elem.add(s, to)
	default:
		f.addMany(s, p)
	}
}

// word is a value of so many bytes.
func word(p unsafe.Pointer, size uintptr) uint64 {
	switch size {
	case 1:
		return uint64(*(*uint8)(p))
	case 2:
		return uint64(*(*uint16)(p))
	case 4:
		return uint64(*(*uint32)(p))
	}
	return *(*uint64)(p)
}

// addMany adds lists and maps. These are nil where their first word is.
func (f *form) addMany(s *sum, p unsafe.Pointer) {
	if *(*unsafe.Pointer)(p) == nil {
		s.mix(nothing)
		return
	}
	s.mix(something)
	switch f.kind {
	case octets:
		raw := *(*[]byte)(p)
		if s.bytes += len(raw); s.bytes <= mostBytes {
			s.mix(maphash.Bytes(seed, raw))
		}
	case list:
		items := (*slice)(p)
		s.mix(uint64(items.len))
		s.bytes += items.len * int(f.elem.size)
		for i := range items.len {
			f.elem.add(s, unsafe.Add(items.data, uintptr(i)*f.elem.size))
		}
	case texts:
		var all uint64 // in any order
		for key, value := range *(*map[string]string)(p) {
			one := sum{bytes: s.bytes + 2*16}
			one.text(key)
			one.text(value)
			s.bytes = one.bytes
			all += one.hash
		}
		s.mix(all)
	case amounts:
		var all uint64
		for key, value := range *(*corev1.ResourceList)(p) {
			one := sum{bytes: s.bytes + 16 + int(unsafe.Sizeof(value))}
			one.text(string(key))
			one.quantity(&value)
			s.bytes = one.bytes
			all += one.hash
		}
		s.mix(all)
	case dictionary:
		f.addMap(s, p)
	}
}

func (f *form) addMap(s *sum, p unsafe.Pointer) {
	var all uint64
	for each := f.at(p).MapRange(); each.Next() && !s.opaque && s.bytes <= mostBytes; {
		value := f.elem.box()
		f.elem.at(value).Set(each.Value())
		one := sum{bytes: s.bytes + 16 + int(f.elem.size)}
		one.text(each.Key().String())
		f.elem.add(&one, value)
		s.bytes, s.opaque = one.bytes, one.opaque
		all += one.hash
	}
	s.mix(all)
}

// quantity is the same for all ways to write a quantity.
func (s *sum) quantity(q *resource.Quantity) {
	s.text(string(q.Format))
	s.mix(uint64(q.MilliValue()))
	s.mix(uint64(q.Value()))
}
