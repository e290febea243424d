package handlers

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/equality"
	"quintet.dev/quintet/components/apiserver/serial"
)

// tracker keeps the books of who manages which fields
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management).
type tracker struct {
	scheme *runtime.Scheme
	// types describes all built-in types to structured merge.
	types *Types
	// deduced is for Scales of custom resources; their fields show what they are.
	deduced managedfields.TypeConverter
}

// ledger is what books one write. It is closed when that is done, and used again then.
type ledger struct {
	*managedfields.FieldManager
	typer *typer
	pool  *sync.Pool // nil if it isn't used again
}

func (l *ledger) close() {
	if l.pool != nil {
		clear(l.typer.made)
		*l.typer = typer{types: l.typer.types, made: l.typer.made[:0]}
		l.pool.Put(l)
	}
}

// single makes ledgers that are used once.
func single(make func() (*managedfields.FieldManager, error)) func() (*ledger, error) {
	return func() (*ledger, error) {
		manager, err := make()
		return &ledger{FieldManager: manager}, err
	}
}

// managers returns what gives out the ledgers of an endpoint, one for each write.
func (t *tracker) managers(d *endpoint) func() (*ledger, error) {
	sub := ""
	if d.sub != nil {
		sub = d.sub.Name
	}
	if d.sub != nil && d.sub.Scale != nil {
		return single(func() (*managedfields.FieldManager, error) { return t.scaleManager(d) })
	}
	if d.post != nil {
		posted := &kinds.Kind{Name: d.gvk.Kind, Hub: d.gvk.GroupVersion(), Versions: []kinds.Version{{
			GroupVersion: d.gvk.GroupVersion(), New: func() kinds.Object {
				obj, _ := t.scheme.New(d.gvk)
				return obj.(kinds.Object)
			},
		}}}
		c := &converter{kind: posted, versions: versionsByType(posted)}
		return single(func() (*managedfields.FieldManager, error) {
			return managedfields.NewDefaultFieldManager(t.types, c, c, c, d.gvk, d.gvk.GroupVersion(), sub, nil)
		})
	}
	filter := filterOf(d)
	if d.kind.Custom != nil {
		return single(func() (*managedfields.FieldManager, error) { return customManager(d, sub, filter) })
	}
	if d.kind.Answer != nil {
		return single(func() (*managedfields.FieldManager, error) {
			c := newConverter(d)
			return managedfields.NewDefaultFieldManager(t.types, c, c, c, d.gvk, d.kind.Hub, sub, filter)
		})
	}
	shared := sync.OnceValues(func() (*converter, *endpointTypes) { return newConverter(d), newEndpointTypes(d, t.types) })
	pool := &sync.Pool{}
	return func() (*ledger, error) {
		if l, ok := pool.Get().(*ledger); ok {
			return l, nil
		}
		c, types := shared()
		typer := &typer{types: types}
		manager, err := managedfields.NewDefaultFieldManager(typer, c, c, c, d.gvk, d.kind.Hub, sub, filter)
		return &ledger{manager, typer, pool}, err
	}
}

// filterOf leaves out the fields that writes through an endpoint don't set. Writes of a whole custom resource know of those of their
// own version only, as upstream's.
func filterOf(d *endpoint) map[fieldpath.APIVersion]fieldpath.Filter {
	reset := map[fieldpath.APIVersion]*fieldpath.Set{}
	for version, set := range d.strategy.ResetFields {
		if d.kind.Custom != nil && d.sub == nil && version != d.gvk.GroupVersion().String() {
			continue
		}
		reset[fieldpath.APIVersion(version)] = set
	}
	return fieldpath.NewExcludeFilterSetMap(reset)
}

// managerName is who a write is booked on: the field manager that it names, or the client's program.
func (c *call) managerName(given string) string {
	if given != "" {
		return given
	}
	agent, _, _ := strings.Cut(c.r.UserAgent(), "/")
	var out strings.Builder
	for _, r := range agent {
		if !unicode.IsPrint(r) {
			continue
		}
		if out.Len()+utf8.RuneLen(r) > validation.FieldManagerMaxLength {
			break
		}
		out.WriteRune(r)
	}
	return out.String()
}

// nothing is what there is before an object is made: of the version of the request, where a webhook would have to convert it.
func (c *call) nothing() kinds.Object {
	if c.kind.Custom != nil {
		return c.version.New()
	}
	return c.kind.HubVersion().New()
}

// ownEntries takes out of an object's managed fields what was booked in a group that isn't this endpoint's, for kinds that are served under
// several (events): upstream forgets it with the first write under another.
func (d *endpoint) ownEntries(obj kinds.Object) {
	if !d.groups {
		return
	}
	if entries := obj.GetManagedFields(); slices.ContainsFunc(entries, d.foreign) {
		obj.SetManagedFields(slices.DeleteFunc(slices.Clone(entries), d.foreign))
	}
}

// foreign tells whether an entry is of another group.
func (d *endpoint) foreign(e metav1.ManagedFieldsEntry) bool {
	gv, err := schema.ParseGroupVersion(e.APIVersion)
	return err == nil && gv.Group != d.version.Group
}

// disown makes those who are booked in other groups manage nothing of an object that something is to be applied to. They are forgotten
// only then: what has been managed is not taken for what nobody has applied yet, and who applies the same again has done so before.
func (d *endpoint) disown(live kinds.Object) {
	if entries := live.GetManagedFields(); d.groups && slices.ContainsFunc(entries, d.foreign) {
		out := slices.DeleteFunc(slices.Clone(entries), d.foreign)
		for _, e := range entries {
			same := func(o metav1.ManagedFieldsEntry) bool {
				return o.Manager == e.Manager && o.Operation == e.Operation && o.Subresource == e.Subresource
			}
			if d.foreign(e) && !slices.ContainsFunc(out, same) {
				e.APIVersion, e.FieldsV1 = d.gvk.GroupVersion().String(), metav1.NewFieldsV1("{}")
				out = append(out, e)
			}
		}
		live.SetManagedFields(out)
	}
}

// track books the difference between old (nil for a new object) and obj on its manager, and returns obj. Of what is unknown nobody can
// tell the difference: nobody manages anything then.
func (c *call) track(old, obj kinds.Object, manager string) kinds.Object {
	if c.alien != nil {
		obj.SetManagedFields(nil)
		return obj
	}
	if entries, ok := c.booked(old, obj, manager); ok {
		obj.SetManagedFields(entries)
		c.ownEntries(obj)
		return obj
	}
	fields, err := c.fields()
	if err != nil {
		obj.SetManagedFields(nil)
		return obj
	}
	defer fields.close()
	live, next := old, obj
	switch {
	case old == nil:
		live = c.nothing()
	case c.oneVersion(old, obj):
		live, next = apart(old, obj)
	}
	tracked, ok := fields.UpdateNoErrors(live, next, c.managerName(manager)).(kinds.Object)
	if ok {
		obj.SetManagedFields(tracked.GetManagedFields())
	}
	c.ownEntries(obj)
	return obj
}

// The ways of keepTimes to its end, in the form of metrics.
const (
	unequalFast = "unequal_objects_fast"
	unequalSlow = "unequal_objects_slow"
	allEqual    = "equal_objects"
)

// keepTimes takes back new times in the managed fields if nothing else has changed, so that nothing is written.
func keepTimes(obj, old kinds.Object) {
	start := time.Now()
	endpointmetrics.RecordTimestampComparisonLatency(compareTimes(obj, old), time.Since(start))
}

func compareTimes(obj, old kinds.Object) (way string) {
	now, before := obj.GetManagedFields(), old.GetManagedFields()
	if len(now) != len(before) || len(now) == 0 {
		return unequalFast
	}
	changed := false
	for i := range now {
		a, b := now[i], before[i]
		changed = changed || !a.Time.Equal(b.Time)
		a.Time, b.Time = nil, nil
		if !reflect.DeepEqual(a, b) {
			return unequalFast
		}
	}
	if !changed {
		return unequalFast
	}
	obj.SetManagedFields(before)
	if !sameContent(obj, old) {
		obj.SetManagedFields(now)
		return unequalSlow
	}
	return allEqual
}

// sameContent compares all but the type meta. What differs is most often the status, which is the last, or the metadata, which is
// compared fast.
func sameContent(a, b kinds.Object) bool {
	if _, free := a.(runtime.Unstructured); free {
		return apiequality.Semantic.DeepEqual(serial.WithKind(a, schema.GroupVersionKind{}), serial.WithKind(b, schema.GroupVersionKind{}))
	}
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	if x.Type() != y.Type() {
		return false
	}
	const first = 1 // the metadata
	if !sameField(x.Field(first), y.Field(first)) {
		return false
	}
	for i := x.NumField() - 1; i >= 0; i-- {
		if i != first && !sameField(x.Field(i), y.Field(i)) {
			return false
		}
	}
	return true
}

func sameField(a, b reflect.Value) bool {
	return a.Type() == typeMeta || equality.Identical(a, b) || apiequality.Semantic.DeepEqual(a.Addr().Interface(), b.Addr().Interface())
}

var typeMeta = reflect.TypeFor[metav1.TypeMeta]()

// converter gives structured merge the versions of one kind: it finds the version of a value by its Go type.
type converter struct {
	kind     *kinds.Kind
	versions map[reflect.Type]*kinds.Version
}

func newConverter(d *endpoint) *converter {
	return &converter{kind: d.kind, versions: versionsByType(d.kind)}
}

// versionsByType finds versions by their Go type. The hub's is the hub, though it may stand for a stored version too.
func versionsByType(kind *kinds.Kind) map[reflect.Type]*kinds.Version {
	out := map[reflect.Type]*kinds.Version{}
	for i := range kind.Versions {
		v := &kind.Versions[i]
		out[reflect.TypeOf(v.New())] = v
	}
	hub := kind.HubVersion()
	out[reflect.TypeOf(hub.New())] = hub
	return out
}

// ConvertToVersion implements runtime.ObjectConvertor. The result may share memory with in.
func (c *converter) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	gv, ok := target.(schema.GroupVersion)
	if !ok {
		return nil, fmt.Errorf("%s: can't convert to %v", c.kind.Name, target)
	}
	to := c.kind.Version(gv)
	if to == nil {
		return nil, runtime.NewNotRegisteredErrForTarget("quintet", reflect.TypeOf(in), target)
	}
	obj, from, err := c.typed(in)
	if err != nil {
		return nil, err
	}
	if from != to {
		if from.ToHub != nil {
			if obj, err = from.ToHub(obj); err != nil {
				return nil, err
			}
		}
		if to.FromHub != nil {
			if obj, err = to.FromHub(obj); err != nil {
				return nil, err
			}
		}
	}
	return serial.WithKind(obj, to.WithKind(c.kind.Name)), nil
}

// typed makes a Go value of what structured merge puts together.
func (c *converter) typed(in runtime.Object) (kinds.Object, *kinds.Version, error) {
	if v := c.versions[reflect.TypeOf(in)]; v != nil {
		return in.(kinds.Object), v, nil
	}
	u, ok := in.(runtime.Unstructured)
	if !ok {
		return nil, nil, fmt.Errorf("%s: unknown type %T", c.kind.Name, in)
	}
	v := c.kind.Version(in.GetObjectKind().GroupVersionKind().GroupVersion())
	if v == nil {
		return nil, nil, runtime.NewNotRegisteredErrForKind("quintet", in.GetObjectKind().GroupVersionKind())
	}
	obj := v.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.UnstructuredContent(), obj); err != nil {
		return nil, nil, fmt.Errorf("unable to convert unstructured object to %v: %w", in.GetObjectKind().GroupVersionKind(), err)
	}
	return obj, v, nil
}

// Convert implements runtime.ObjectConvertor.
func (c *converter) Convert(any, any, any) error { return errNotConverted }

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (c *converter) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// Default implements runtime.ObjectDefaulter.
func (c *converter) Default(in runtime.Object) {
	if v := c.versions[reflect.TypeOf(in)]; v != nil && v.Default != nil {
		v.Default(in.(kinds.Object))
	}
}

// New implements runtime.ObjectCreater.
func (c *converter) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	if v := c.kind.Version(gvk.GroupVersion()); v != nil {
		return serial.WithKind(v.New(), gvk), nil
	}
	return nil, runtime.NewNotRegisteredErrForKind("quintet", gvk)
}

var errNotConverted = errors.New("structured merge converts by version only")
