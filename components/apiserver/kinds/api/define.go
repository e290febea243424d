package api

import (
	"context"
	"reflect"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/deprecation"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Row is the form in which a Kind is written down, with functions of the type that P, a pointer to the hub type, says.
// Fields of names that Kind has too are explained there. What a row leaves out gets the usual value: see Define.
type Row[P Object] struct {
	Name       string // "Pod"
	Resource   string // "pods"
	ShortNames []string
	Categories []string
	Cluster    bool   // not namespaced
	Prefix     string // below /registry; Resource if empty
	Verbs      []string

	Hub     schema.GroupVersion
	Stored  schema.GroupVersion // Hub if empty
	AsJSON  bool                // in the store
	Gate    featuregate.Feature // optional
	Default func(obj P)
	Check   func(obj P) error // of the hub version; see Version
	OnRead  func(obj P)       // see Kind
	// Others are further served versions; OthersFirst tells that the preferred one is among them.
	Others      []Version
	OthersFirst bool
	// RemovedVersions are those that are only read; see RemovedVersion and RemovedTwin.
	RemovedVersions []Version

	Strategy Strategy[P]
	Status   *Strategy[P] // serves /status
	// StatusNoTable: /status has no Table, though the object has.
	StatusNoTable bool
	Scale         *Scale // serves /scale; see ReplicasScale
	Subresources  []Subresource

	Columns []metav1.TableColumnDefinition // nil: name and creation time; none at all for virtual kinds
	Row     func(obj P) []any
	// RowConditions and RowOrder are optional.
	RowConditions func(obj P) []metav1.TableRowCondition
	RowOrder      func(a, b P) int

	Fields       map[string]func(obj P) string
	Unselectable string
	Indexed      []string
	TTL          func(obj P) time.Duration
	// FieldAnnotations: see Kind.
	FieldAnnotations []string
	CreateFunc       CreateFunc[P]
	Read             func(ctx context.Context, name string) []P
}

// Define makes the row of the table.
func Define[P Object](r Row[P]) *Kind {
	hub := Version{GroupVersion: r.Hub, New: NewObject[P], Default: apply1(r.Default)}
	k := &Kind{
		Name: r.Name, Resource: r.Resource, Singular: strings.ToLower(r.Name),
		ShortNames: r.ShortNames, Categories: r.Categories, Namespaced: !r.Cluster,
		Hub: r.Hub, RemovedVersions: r.RemovedVersions, Stored: r.Stored, StoredAsJSON: r.AsJSON,
		Gate: r.Gate, Prefix: r.Prefix, Verbs: r.Verbs,
		Columns: r.Columns, Indexed: r.Indexed, Unselectable: r.Unselectable, FieldAnnotations: r.FieldAnnotations,
		PlainRows: r.Columns == nil,
		OnRead:    apply1(r.OnRead), reread: rereaderOf(reflect.TypeFor[P](), r.AsJSON),
		rereadText: rereaderOf(reflect.TypeFor[P](), true),
	}
	if r.Check != nil {
		hub.Check = func(obj Object) error { return r.Check(obj.(P)) }
		for i := range k.RemovedVersions {
			if v := &k.RemovedVersions[i]; v.Twin {
				v.Check = func(obj Object) error { return r.Check(sameAs[P](obj).Interface().(P)) }
			}
		}
	}
	if r.OthersFirst {
		k.Versions = append(append([]Version{}, r.Others...), hub)
	} else {
		k.Versions = append([]Version{hub}, r.Others...)
	}
	groupVersions := make([]schema.GroupVersion, len(k.Versions))
	for i := range k.Versions {
		deprecate(k, &k.Versions[i])
		groupVersions[i] = k.Versions[i].GroupVersion
	}
	if k.Prefix == "" {
		k.Prefix = r.Resource
	}
	k.Strategy = r.Strategy.Erase(groupVersions...)
	if r.Status != nil {
		s := r.Status.Erase(groupVersions...)
		k.Subresources = append(k.Subresources,
			Subresource{Name: "status", Verbs: ReadWriteVerbs(), Strategy: &s, NoTable: r.StatusNoTable})
	}
	if r.Scale != nil {
		k.Subresources = append(k.Subresources, Subresource{
			Name: "scale", Verbs: ReadWriteVerbs(),
			Body:  autoscalingv1.SchemeGroupVersion.WithKind("Scale"),
			Scale: r.Scale.in(groupVersions),
		})
	}
	k.Subresources = append(k.Subresources, r.Subresources...)
	switch {
	case r.Row != nil:
		k.Row = func(obj Object) []any { return r.Row(obj.(P)) }
	case r.CreateFunc == nil:
		k.Columns, k.Row = plainColumns(), plainRow
	}
	if r.RowConditions != nil {
		k.RowConditions = func(obj Object) []metav1.TableRowCondition { return r.RowConditions(obj.(P)) }
	}
	if r.RowOrder != nil {
		k.RowOrder = func(a, b Object) int { return r.RowOrder(a.(P), b.(P)) }
	}
	if len(r.Fields) > 0 {
		k.Fields = make(map[string]func(Object) string, len(r.Fields))
		for name, value := range r.Fields {
			k.Fields[name] = func(obj Object) string { return value(obj.(P)) }
		}
	}
	if r.TTL != nil {
		k.TTL = func(obj Object) time.Duration { return r.TTL(obj.(P)) }
	}
	if r.CreateFunc != nil {
		k.Verbs = []string{"create"}
		k.CreateFunc = func(ctx context.Context, obj Object, asked CreateRequest) (Object, error) {
			return r.CreateFunc(ctx, obj.(P), asked)
		}
	}
	if r.Read != nil {
		k.Verbs = []string{"get", "list"}
		k.Read = func(ctx context.Context, name string) []Object {
			var out []Object
			for _, obj := range r.Read(ctx, name) {
				out = append(out, obj)
			}
			return out
		}
	}
	return k
}

func apply1[P Object](f func(P)) func(Object) {
	if f == nil {
		return nil
	}
	return func(obj Object) { f(obj.(P)) }
}

func orNil[P Object](obj Object) P {
	p, _ := obj.(P)
	return p
}

func resetFields(versions []schema.GroupVersion, paths []string) map[string]*fieldpath.Set {
	if len(paths) == 0 {
		return nil
	}
	set := fieldpath.NewSet()
	for _, p := range paths {
		set.Insert(dotted(p))
	}
	out := make(map[string]*fieldpath.Set, len(versions))
	for _, v := range versions {
		out[v.String()] = set
	}
	return out
}

func dotted(path string) fieldpath.Path {
	var out fieldpath.Path
	for name := range strings.SplitSeq(path, ".") {
		out = append(out, fieldpath.PathElement{FieldName: &name})
	}
	return out
}

// ReadWriteVerbs are those of a subresource that is read and written like the object.
func ReadWriteVerbs() []string { return []string{"get", "patch", "update"} }

// Handled is a subresource that a handler of its name serves.
func Handled(name string, verbs ...string) Subresource {
	return Subresource{Name: name, Verbs: verbs}
}

// minor is that of the Kubernetes release that the table is of.
const minor = 36

// deprecate makes a version warn its users if its Go type says that it is to go.
func deprecate(k *Kind, v *Version) {
	obj := v.New()
	obj.GetObjectKind().SetGroupVersionKind(v.WithKind(k.Name))
	if v.DeprecationWarning == "" && deprecation.IsDeprecated(obj, 1, minor) {
		v.DeprecationWarning = deprecation.WarningMessage(obj)
	}
	v.RemovedRelease = deprecation.RemovedRelease(obj)
}

func plainColumns() []metav1.TableColumnDefinition {
	doc := metav1.ObjectMeta{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: doc["name"]},
		{Name: "Created At", Type: "date", Description: doc["creationTimestamp"]},
	}
}

func plainRow(obj Object) []any {
	return []any{obj.GetName(), obj.GetCreationTimestamp().UTC().Format(time.RFC3339)}
}
