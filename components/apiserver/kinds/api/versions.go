package api

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// OtherVersion makes a further served version of a kind whose hub is P.
func OtherVersion[P, V Object](gv schema.GroupVersion, toHub func(V) P, fromHub func(P) V,
	setDefaults func(V)) Version {
	return Version{
		GroupVersion: gv,
		New:          NewObject[V],
		Default:      apply1(setDefaults),
		ToHub:        func(obj Object) (Object, error) { return toHub(obj.(V)), nil },
		FromHub:      func(hub Object) (Object, error) { return fromHub(hub.(P)), nil },
	}
}

// TwinVersion makes a further served version whose type is laid out as that of the hub P: objects are one and the same
// in both.
func TwinVersion[V, P Object](gv schema.GroupVersion, setDefaults func(P)) Version {
	v := Version{
		GroupVersion: gv, New: NewObject[V], Twin: true,
		ToHub:   func(obj Object) (Object, error) { return retyped[P](obj), nil },
		FromHub: func(hub Object) (Object, error) { return retyped[V](hub), nil },
	}
	if setDefaults != nil {
		v.Default = func(obj Object) { setDefaults(sameAs[P](obj).Interface().(P)) }
	}
	return v
}

// retyped is an object as one of its twin's type, which has a type meta and metadata of its own.
func retyped[To Object](obj Object) To {
	fresh := reflect.New(reflect.TypeFor[To]().Elem())
	fresh.Elem().Set(sameAs[To](obj).Elem())
	out := fresh.Interface().(To)
	out.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return out
}

// sameAs is the very object, looked at as one of its twin's type.
func sameAs[To Object](obj Object) reflect.Value {
	return reflect.NewAt(reflect.TypeFor[To]().Elem(), reflect.ValueOf(obj).UnsafePointer())
}

// RemovedVersion makes a version in which objects are read but never written; setDefaults knows the version's defaults
// in terms of the hub's type, and may be nil.
func RemovedVersion[V, P Object](gv schema.GroupVersion, toHub func(V) P, setDefaults func(P)) Version {
	return Version{
		GroupVersion: gv, New: NewObject[V],
		ToHub: func(obj Object) (Object, error) {
			hub := toHub(obj.(V))
			if setDefaults != nil {
				setDefaults(hub)
			}
			return hub, nil
		},
	}
}

// RemovedLike makes such a version of a type that is laid out as that which toHub takes.
func RemovedLike[V, L, P Object](gv schema.GroupVersion, toHub func(L) P, setDefaults func(P)) Version {
	return RemovedVersion(gv, func(obj V) P { return toHub(retyped[L](obj)) }, setDefaults)
}

// RemovedTwin makes such a version of a type that is laid out as that of the hub P.
func RemovedTwin[V, P Object](gv schema.GroupVersion, setDefaults func(P)) Version {
	v := RemovedLike[V](gv, func(hub P) P { return hub }, setDefaults)
	v.Twin = true
	return v
}

// NewObject makes an empty object of the type that P points to.
func NewObject[P Object]() Object {
	return reflect.New(reflect.TypeFor[P]().Elem()).Interface().(P)
}
