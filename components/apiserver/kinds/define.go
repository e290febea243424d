package kinds

import (
	"context"
	"reflect"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/deprecation"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// row is the typed form in which a Kind is written down; P is a pointer to the hub type. What it leaves out gets the
// usual value: see define.
type row[P Object] struct {
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
	// Former are versions that are only read; see former and formerTwin.
	Former []Version

	Strategy strategy[P]
	Status   *strategy[P] // serves /status
	// StatusNoTable: /status has no Table, though the object has.
	StatusNoTable bool
	Scale         *scale[P] // serves /scale
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
	Answer           answer[P]
	Read             func(ctx context.Context, name string) []P
}

// strategy is Strategy with typed hooks; see there.
type strategy[P Object] struct {
	PrepareCreate    func(ctx context.Context, obj P)
	PrepareUpdate    func(ctx context.Context, new, old P)
	Validate         func(obj P) field.ErrorList
	ValidateUpdate   func(new, old P) field.ErrorList
	ValidateAmong    func(new, old P, meta MetaErrors) field.ErrorList
	ValidateName     func(name string, prefix bool) []string
	Meta             MetaCheck
	AnyFinalizer     bool
	NoGeneratedNames bool
	Warnings         func(new, old P) []string
	Canonicalize     func(obj P)
	Allocate         func(ctx context.Context, new, old P, dryRun bool) (func(Outcome), error)
	Stored           func(new, old P)

	CreateOnUpdate      bool
	CreateOnApply       bool
	UnconditionalUpdate bool
	Grace               func(obj P, options *metav1.DeleteOptions) bool
	Terminate           func(obj P)
	Held                func(obj P) bool
	StorePreconditions  bool
	ReturnDeleted       bool
	DocumentStatus      bool
	OrphanByDefault     bool
	NoDependents        bool
	CollectedLater      bool
	OrphanWarning       string
	// Reset lists the fields that writes through this strategy don't touch, as dotted paths, for all versions.
	Reset []string
}

// scale is Scale with typed hooks; see there.
type scale[P Object] struct {
	Get func(obj P) (autoscalingv1.ScaleSpec, autoscalingv1.ScaleStatus)
	Set func(obj P, replicas int32)
	// Path is the dotted path of the replicas, the same in all versions.
	Path string
}

// define makes the row of the table.
func define[P Object](r row[P]) *Kind {
	hub := Version{GroupVersion: r.Hub, New: newObject[P], Default: apply1(r.Default)}
	k := &Kind{
		Name: r.Name, Resource: r.Resource, Singular: strings.ToLower(r.Name),
		ShortNames: r.ShortNames, Categories: r.Categories, Namespaced: !r.Cluster,
		Hub: r.Hub, Former: r.Former, Stored: r.Stored, StoredAsJSON: r.AsJSON, Gate: r.Gate, Prefix: r.Prefix, Verbs: r.Verbs,
		Columns: r.Columns, Indexed: r.Indexed, Unselectable: r.Unselectable, FieldAnnotations: r.FieldAnnotations, PlainRows: r.Columns == nil,
		OnRead: apply1(r.OnRead), reread: rereaderOf(reflect.TypeFor[P](), r.AsJSON), rereadText: rereaderOf(reflect.TypeFor[P](), true),
	}
	if r.Check != nil {
		hub.Check = func(obj Object) error { return r.Check(obj.(P)) }
		for i := range k.Former {
			if v := &k.Former[i]; v.twin {
				v.Check = func(obj Object) error { return r.Check(sameAs[P](obj).Interface().(P)) }
			}
		}
	}
	if r.OthersFirst {
		k.Versions = append(append([]Version{}, r.Others...), hub)
	} else {
		k.Versions = append([]Version{hub}, r.Others...)
	}
	for i := range k.Versions {
		deprecate(k, &k.Versions[i])
	}
	if k.Prefix == "" {
		k.Prefix = r.Resource
	}
	k.Strategy = r.Strategy.erase(k.Versions)
	if r.Status != nil {
		s := r.Status.erase(k.Versions)
		k.Subresources = append(k.Subresources, Subresource{Name: "status", Verbs: readAndWrite(), Strategy: &s, NoTable: r.StatusNoTable})
	}
	if r.Scale != nil {
		k.Subresources = append(k.Subresources, Subresource{
			Name: "scale", Verbs: readAndWrite(),
			Body:  autoscalingv1.SchemeGroupVersion.WithKind("Scale"),
			Scale: r.Scale.erase(k.Versions),
		})
	}
	k.Subresources = append(k.Subresources, r.Subresources...)
	switch {
	case r.Row != nil:
		k.Row = func(obj Object) []any { return r.Row(obj.(P)) }
	case r.Answer == nil:
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
	if r.Answer != nil {
		k.Verbs = []string{"create"}
		k.Answer = func(ctx context.Context, obj Object, asked Asked) (Object, error) {
			return r.Answer(ctx, obj.(P), asked)
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

func (s strategy[P]) erase(versions []Version) Strategy {
	out := Strategy{
		ValidateName: s.ValidateName, Meta: s.Meta, AnyFinalizer: s.AnyFinalizer, NoGeneratedNames: s.NoGeneratedNames,
		CreateOnUpdate: s.CreateOnUpdate, CreateOnApply: s.CreateOnApply, UnconditionalUpdate: s.UnconditionalUpdate,
		OrphanByDefault: s.OrphanByDefault, NoDependents: s.NoDependents, CollectedLater: s.CollectedLater,
		OrphanWarning: s.OrphanWarning, ReturnDeleted: s.ReturnDeleted, DocumentStatus: s.DocumentStatus,
		StorePreconditions: s.StorePreconditions,
		Canonicalize:       apply1(s.Canonicalize), Terminate: apply1(s.Terminate),
		ResetFields: resetFields(versions, s.Reset),
	}
	if f := s.PrepareCreate; f != nil {
		out.PrepareCreate = func(ctx context.Context, obj Object) { f(ctx, obj.(P)) }
	}
	if f := s.PrepareUpdate; f != nil {
		out.PrepareUpdate = func(ctx context.Context, new, old Object) { f(ctx, new.(P), old.(P)) }
	}
	if f := s.Validate; f != nil {
		out.Validate = func(_ context.Context, obj Object) field.ErrorList { return f(obj.(P)) }
	}
	if f := s.ValidateUpdate; f != nil {
		out.ValidateUpdate = func(_ context.Context, new, old Object) field.ErrorList { return f(new.(P), old.(P)) }
	}
	if f := s.ValidateAmong; f != nil {
		out.ValidateAmong = func(_ context.Context, new, old Object, meta MetaErrors) field.ErrorList {
			return f(new.(P), old.(P), meta)
		}
		out.ValidateUpdate = func(_ context.Context, new, old Object) field.ErrorList { return f(new.(P), old.(P), MetaErrors{}) }
	}
	if f := s.Warnings; f != nil {
		out.Warnings = func(_ context.Context, new, old Object) []string { return f(new.(P), orNil[P](old)) }
	}
	if f := s.Allocate; f != nil {
		out.Allocate = func(ctx context.Context, new, old Object, dryRun bool) (func(Outcome), error) {
			return f(ctx, orNil[P](new), orNil[P](old), dryRun)
		}
	}
	if f := s.Stored; f != nil {
		out.Stored = func(new, old Object) { f(new.(P), old.(P)) }
	}
	if f := s.Grace; f != nil {
		out.Grace = func(_ context.Context, obj Object, o *metav1.DeleteOptions) bool { return f(obj.(P), o) }
	}
	if f := s.Held; f != nil {
		out.Held = func(obj Object) bool { return f(obj.(P)) }
	}
	return out
}

func (s *scale[P]) erase(versions []Version) *Scale {
	out := &Scale{
		Get: func(obj Object) (autoscalingv1.ScaleSpec, autoscalingv1.ScaleStatus) { return s.Get(obj.(P)) },
		Set: func(obj Object, replicas int32) error {
			s.Set(obj.(P), replicas)
			return nil
		},

		ReplicasPath: make(map[string]fieldpath.Path, len(versions)),
	}
	for _, v := range versions {
		out.ReplicasPath[v.String()] = dotted(s.Path)
	}
	return out
}

// other makes a further served version of a kind whose hub is P.
func other[P, V Object](gv schema.GroupVersion, toHub func(V) P, fromHub func(P) V, setDefaults func(V)) Version {
	return Version{
		GroupVersion: gv,
		New:          newObject[V],
		Default:      apply1(setDefaults),
		ToHub:        func(obj Object) (Object, error) { return toHub(obj.(V)), nil },
		FromHub:      func(hub Object) (Object, error) { return fromHub(hub.(P)), nil },
	}
}

// twinned makes a further served version whose type is laid out as that of the hub P: objects are one and the same in both.
func twinned[V, P Object](gv schema.GroupVersion, setDefaults func(P)) Version {
	v := Version{
		GroupVersion: gv, New: newObject[V], twin: true,
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

func newObject[P Object]() Object {
	return reflect.New(reflect.TypeFor[P]().Elem()).Interface().(P)
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

func resetFields(versions []Version, paths []string) map[string]*fieldpath.Set {
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

func readAndWrite() []string { return []string{"get", "patch", "update"} }

// special is a subresource that a handler of its name serves.
func special(name string, verbs ...string) Subresource {
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
