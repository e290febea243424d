package alike

import (
	"bytes"
	"maps"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"quintet.dev/quintet/components/apiserver/kinds/equality"
)

// same tells whether the values at two places are identical, as package equality says. They have nothing opaque in
// them.
func (f *form) same(a, b unsafe.Pointer) bool {
	switch f.kind {
	case bits:
		return word(a, f.size) == word(b, f.size)
	case text:
		return *(*string)(a) == *(*string)(b)
	case quantity:
		return sameQuantity(*(*resource.Quantity)(a), *(*resource.Quantity)(b))
	case moment:
		return *(*time.Time)(a) == *(*time.Time)(b)
	case structure:
		for i := range f.fields {
			if x := &f.fields[i]; !x.form.same(unsafe.Add(a, x.offset), unsafe.Add(b, x.offset)) {
				return false
			}
		}
		return true
	case octets, list:
		return f.sameItems((*slice)(a), (*slice)(b))
	}
	x, y := *(*unsafe.Pointer)(a), *(*unsafe.Pointer)(b)
	switch {
	case x == y:
		return true
	case x == nil || y == nil:
		return false
	}
	switch f.kind {
	case pointer:
		return f.elem.same(x, y)
	case texts:
		return maps.Equal(*(*map[string]string)(a), *(*map[string]string)(b))
	case amounts:
		return maps.EqualFunc(*(*corev1.ResourceList)(a), *(*corev1.ResourceList)(b), sameQuantity)
	}
	return equality.Identical(f.at(a), f.at(b))
}

func (f *form) sameItems(a, b *slice) bool {
	switch {
	case a.len != b.len || (a.data == nil) != (b.data == nil):
		return false
	case a.data == b.data:
		return true
	case f.kind == octets:
		return bytes.Equal(unsafe.Slice((*byte)(a.data), a.len), unsafe.Slice((*byte)(b.data), b.len))
	}
	for i := range a.len {
		if at := uintptr(i) * f.elem.size; !f.elem.same(unsafe.Add(a.data, at), unsafe.Add(b.data, at)) {
			return false
		}
	}
	return true
}

// sameQuantity takes no notice of whether they remember how they are written.
func sameQuantity(x, y resource.Quantity) bool { return x.Format == y.Format && x.Cmp(y) == 0 }
