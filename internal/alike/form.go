package alike

import (
	"reflect"
	"sync"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kind is how a sum is made of values of a type.
type kind int

const (
	opaque kind = iota // not at all: nothing that holds such a value is shared
	bits               // as the memory is, without pointers or gaps
	text
	octets
	quantity
	moment
	texts      // map[string]string
	amounts    // corev1.ResourceList
	dictionary // other maps of strings to what has a sum
	list
	pointer
	structure
)

// form is what is known of a Go type. Values are looked at where they lie: objects have hundreds of fields, most of
// them empty, and this is done with every write.
type form struct {
	of     reflect.Type
	kind   kind
	shared bool // it is, or has, what can be shared
	size   uintptr
	fields []field
	elem   *form
}

type field struct {
	offset uintptr
	form   *form
	unique bool // it tells objects apart: there is nothing to share
}

// slice is how a slice lies in memory.
type slice struct {
	data     unsafe.Pointer
	len, cap int
}

// at is the value at a place, as reflection has it.
func (f *form) at(p unsafe.Pointer) reflect.Value { return reflect.NewAt(f.of, p).Elem() }

// isEmpty tells whether there is nothing to share.
func (f *form) isEmpty(p unsafe.Pointer) bool {
	switch f.kind {
	case text:
		return *(*string)(p) == ""
	case octets, list:
		return (*slice)(p).len == 0
	}
	return *(*unsafe.Pointer)(p) == nil // a pointer or a map
}

// set gives a part the value of another one.
func (f *form) set(p, from unsafe.Pointer) {
	switch f.kind {
	case text:
		*(*string)(p) = *(*string)(from)
	case octets, list:
		*(*slice)(p) = *(*slice)(from)
	default:
		*(*unsafe.Pointer)(p) = *(*unsafe.Pointer)(from)
	}
}

// forms are those of the types that were seen. The zero value is ready.
type forms struct {
	mu    sync.Mutex
	known sync.Map // by reflect.Type
}

func (fs *forms) of(t reflect.Type) *form {
	if f, ok := fs.known.Load(t); ok {
		return f.(*form)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	making := map[reflect.Type]*form{}
	f := fs.make(t, making)
	for t, f := range making {
		fs.known.Store(t, f)
	}
	return f
}

// make describes a type. Types may contain themselves.
func (fs *forms) make(t reflect.Type, making map[reflect.Type]*form) *form {
	if f := making[t]; f != nil {
		return f
	}
	if f, ok := fs.known.Load(t); ok {
		return f.(*form)
	}
	f := &form{of: t, size: t.Size(), shared: true}
	making[t] = f
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		f.kind, f.shared = quantity, false
		return f
	case reflect.TypeFor[time.Time]():
		f.kind, f.shared = moment, false
		return f
	case reflect.TypeFor[map[string]string]():
		f.kind = texts
		return f
	case reflect.TypeFor[corev1.ResourceList]():
		f.kind = amounts
		return f
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		f.kind, f.shared = bits, false
	case reflect.String:
		f.kind = text
	case reflect.Slice:
		f.kind, f.elem = list, fs.make(t.Elem(), making)
		if t.Elem().Kind() == reflect.Uint8 {
			f.kind = octets
		}
	case reflect.Pointer:
		f.kind, f.elem = pointer, fs.make(t.Elem(), making)
	case reflect.Map:
		if f.elem = fs.make(t.Elem(), making); t.Key().Kind() == reflect.String {
			f.kind = dictionary
		}
	case reflect.Struct:
		fs.structure(f, t, making)
	default:
		f.shared = false
	}
	return f
}

func (fs *forms) structure(f *form, t reflect.Type, making map[reflect.Type]*form) {
	f.kind = structure
	shared := false
	for i := range t.NumField() {
		x := t.Field(i)
		if !x.IsExported() {
			f.kind, f.shared, f.fields = opaque, false, nil
			return
		}
		unique := t == reflect.TypeFor[metav1.ObjectMeta]() &&
			(x.Name == "Name" || x.Name == "UID" || x.Name == "ResourceVersion")
		f.fields = append(f.fields, field{x.Offset, fs.make(x.Type, making), unique})
		shared = shared || f.fields[i].form.shared
	}
	f.shared = shared
}
