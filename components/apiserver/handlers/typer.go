package handlers

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"quintet.dev/quintet/components/apiserver/fieldmanager"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/serial"
)

// endpointTypes knows how structured merge describes the Go types that pass an endpoint.
type endpointTypes struct {
	all   *Types
	types map[reflect.Type]func() (described, error)
}

// described is a type in the words of structured merge.
type described struct {
	typed.ParseableType
	// verbatim tells that something in the objects is kept as a client has written it.
	verbatim bool
}

func newEndpointTypes(d *endpoint, all *Types) *endpointTypes {
	t := &endpointTypes{all: all, types: map[reflect.Type]func() (described, error){}}
	for goType, v := range versionsByType(d.kind) {
		if _, free := v.New().(runtime.Unstructured); free {
			continue // anything may be in it, so it is held against the schema
		}
		t.types[goType] = sync.OnceValues(func() (described, error) {
			of, err := all.of(v.WithKind(d.kind.Name))
			return described{of, fieldmanager.IsVerbatim(goType.Elem())}, err
		})
	}
	return t
}

// typer is the managedfields.TypeConverter of one write. Go values are not held against the schema, as they can't but
// fit it: it was made from their types, and what comparing needs (the keys of list items) comparing asks for itself. And
// it remembers what a typed value was made of, which structured merge asks for just to learn its version.
type typer struct {
	types *endpointTypes
	made  []made
	// bare leaves out the managed fields of Go values: an apply doesn't merge them.
	bare bool
	// config is what is applied, once it was held against the schema.
	config made
	// checks holds all that comes against the schema.
	checks bool
}

type made struct {
	typed *typed.TypedValue
	from  runtime.Object
}

var _ managedfields.TypeConverter = (*typer)(nil)

// ObjectToTyped implements managedfields.TypeConverter.
func (t *typer) ObjectToTyped(obj runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	if t.config.from != nil && t.config.from == obj {
		return t.config.typed, nil
	}
	describe := t.types.types[reflect.TypeOf(obj)]
	if describe == nil || t.checks {
		return t.types.all.ObjectToTyped(obj, options...)
	}
	d, err := describe()
	if err != nil {
		return nil, err
	}
	if o, ok := obj.(kinds.Object); ok && t.bare {
		o = serial.ShallowCopy(o)
		o.SetManagedFields(nil)
		obj = o
	}
	v, err := value.NewValueReflect(obj)
	if err != nil {
		return nil, err
	}
	out := typed.AsTypedUnvalidated(v, d.Schema, d.TypeRef) //nolint:staticcheck // see typer
	// Without options structured merge asks for what it has converted, and for the live object where it looks at what kubectl applied
	// last. It allows no duplicates there, though it does in what is stored.
	if len(options) == 0 {
		if err := out.Validate(); err != nil {
			return nil, err
		}
	}
	if !d.verbatim { // else what is converted is written anew before, and white space in it is no difference to other versions
		t.made = append(t.made, made{out, obj})
	}
	return out, nil
}

// TypedToObject implements managedfields.TypeConverter.
func (t *typer) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	for _, m := range t.made {
		if m.typed == v {
			return m.from, nil
		}
	}
	return t.types.all.TypedToObject(v)
}
