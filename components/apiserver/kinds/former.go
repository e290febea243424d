package kinds

import "k8s.io/apimachinery/pkg/runtime/schema"

// former makes a version in which objects are read but never written; setDefaults knows the version's defaults in terms of the hub's type,
// and may be nil.
func former[V, P Object](gv schema.GroupVersion, toHub func(V) P, setDefaults func(P)) Version {
	return Version{
		GroupVersion: gv, New: newObject[V],
		ToHub: func(obj Object) (Object, error) {
			hub := toHub(obj.(V))
			if setDefaults != nil {
				setDefaults(hub)
			}
			return hub, nil
		},
	}
}

// formerLike makes such a version of a type that is laid out as that which toHub takes.
func formerLike[V, L, P Object](gv schema.GroupVersion, toHub func(L) P, setDefaults func(P)) Version {
	return former(gv, func(obj V) P { return toHub(retyped[L](obj)) }, setDefaults)
}

// formerTwin makes such a version of a type that is laid out as that of the hub P.
func formerTwin[V, P Object](gv schema.GroupVersion, setDefaults func(P)) Version {
	v := formerLike[V](gv, func(hub P) P { return hub }, setDefaults)
	v.twin = true
	return v
}
