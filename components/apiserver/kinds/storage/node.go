package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

func csiNodes() *api.Kind {
	return api.Define(api.Row[*storagev1.CSINode]{
		Name: "CSINode", Resource: "csinodes", Cluster: true,
		Hub: storagev1.SchemeGroupVersion,
		RemovedVersions: []api.Version{api.RemovedTwin[*storagev1beta1.CSINode, *storagev1.CSINode](
			storagev1beta1.SchemeGroupVersion, nil)},
		Strategy: api.Strategy[*storagev1.CSINode]{
			Meta:           api.MetaObjects,
			Validate:       api.OfObject(ValidateNode),
			ValidateUpdate: api.OfChange(ValidateNodeUpdate),
			ValidateName:   validation.NameIsDNSSubdomain,
			ReturnDeleted:  true,
		},
		Columns: NodeColumns(),
		Row:     NodeRow,
	})
}

// NodeColumns are the columns of CSI nodes.
func NodeColumns() show.Columns {
	return show.Name().Of("integer", "Drivers",
		"Drivers indicates the number of CSI drivers registered on the node").Age()
}

// NodeRow are the cells of a CSI node.
func NodeRow(n *storagev1.CSINode) []any {
	return []any{n.Name, int64(len(n.Spec.Drivers)), show.Age(n.CreationTimestamp)}
}

// maxNodeID bounds what a driver calls a node.
const maxNodeID = 256

// ValidateNode checks a CSI node.
func ValidateNode(n *storagev1.CSINode) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	path := field.NewPath("spec", "drivers")
	for i := range n.Spec.Drivers {
		d, at := &n.Spec.Drivers[i], path.Index(i)
		errs = append(errs, podspec.DriverName(d.Name, at.Child("name"))...)
		errs = append(errs, checks.Required(d.NodeID, at.Child("nodeID"))...)
		if len(d.NodeID) > maxNodeID {
			errs = append(errs, field.Invalid(at.Child("nodeID"), d.NodeID, "must be 256 characters or less"))
		}
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			errs = append(errs, checks.NonNegative(int64(*d.Allocatable.Count), at.Child("allocatable", "count"))...)
		}
		if names.Has(d.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), d.Name))
		}
		names.Insert(d.Name)
		keys := sets.New[string]()
		for _, key := range d.TopologyKeys {
			errs = append(errs, checks.Required(key, at)...)
			if keys.Has(key) {
				errs = append(errs, field.Duplicate(at, key))
			}
			keys.Insert(key)
			errs = append(errs, checks.Text(key, at, utilvalidation.IsQualifiedName)...)
		}
	}
	return errs
}

// ValidateNodeUpdate checks a change: of what a driver says of a node, only how many volumes fit may change.
func ValidateNodeUpdate(new, old *storagev1.CSINode) field.ErrorList {
	errs := ValidateNode(new)
	for _, was := range old.Spec.Drivers {
		for _, is := range new.Spec.Drivers {
			was.Allocatable, is.Allocatable = nil, nil
			if is.Name == was.Name && !apiequality.Semantic.DeepEqual(is, was) {
				errs = append(errs, field.Invalid(field.NewPath("spec", "drivers"), checks.Unversioned(is),
					"field is immutable"))
			}
		}
	}
	return errs
}
