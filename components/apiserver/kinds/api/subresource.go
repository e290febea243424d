package api

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Subresource is an endpoint of an object, e.g. "status". Those with Strategy or Scale are served from the stored
// object by the ordinary verbs; all others (log, exec, binding, token, ...) are served by a handler of that name.
type Subresource struct {
	Name  string
	Verbs []string
	// Body is the kind of the request and response; zero means the parent's own.
	Body     schema.GroupVersionKind
	Strategy *Strategy[Object]
	Scale    *Scale
	NoTable  bool // though the parent has one
}

// Scale maps an object to autoscaling/v1 Scale and back.
type Scale struct {
	// Get returns spec and status of the scale; the registry fills in the metadata.
	Get func(obj Object) (autoscalingv1.ScaleSpec, autoscalingv1.ScaleStatus)
	// Set writes the replicas wanted into obj.
	Set func(obj Object, replicas int32) error
	// Check tells what in an object can't be read as a scale; nil if all can be.
	Check func(obj Object) error
	// Has tells whether an object says how many replicas are wanted, in the field that Field names; nil if all do.
	Has   func(obj Object) bool
	Field string
	// ReplicasPath is where the replicas are in the parent, by API version, for managed fields. A row leaves it out:
	// they are in spec.replicas.
	ReplicasPath map[string]fieldpath.Path
}

// ReplicasScale is the Scale of a kind that has the replicas wanted in spec.replicas.
func ReplicasScale[P Object](get func(obj P) (autoscalingv1.ScaleSpec, autoscalingv1.ScaleStatus),
	set func(obj P, replicas int32)) *Scale {
	return &Scale{
		Get: func(obj Object) (autoscalingv1.ScaleSpec, autoscalingv1.ScaleStatus) { return get(obj.(P)) },
		Set: func(obj Object, replicas int32) error {
			set(obj.(P), replicas)
			return nil
		},
	}
}

// in is the Scale of a kind that has these versions.
func (s Scale) in(versions []schema.GroupVersion) *Scale {
	s.ReplicasPath = make(map[string]fieldpath.Path, len(versions))
	for _, v := range versions {
		s.ReplicasPath[v.String()] = dotted("spec.replicas")
	}
	return &s
}

// ScaleOf makes a scale of what most workloads have. Malformed selectors don't get past validation.
func ScaleOf(want *int32, have int32, selector *metav1.LabelSelector) (autoscalingv1.ScaleSpec,
	autoscalingv1.ScaleStatus) {
	status := autoscalingv1.ScaleStatus{Replicas: have}
	if s, err := metav1.LabelSelectorAsSelector(selector); err == nil {
		status.Selector = s.String()
	}
	var spec autoscalingv1.ScaleSpec
	if want != nil {
		spec.Replicas = *want
	}
	return spec, status
}
