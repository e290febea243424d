package registry

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	testclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/registry/registrytest"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// began is the time of a fixture's clock.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// setup is what a fixture is made of. What is left out is an empty store, and no admission.
type setup struct {
	store     storage.Store
	admission admission.Interface
	// kind changes the rows before they are used; it may be nil.
	kind        func(*api.Kind)
	noCollector bool
	workers     int
}

// fixture is a registry of some kinds of the table over a store in memory. Its requests are of the namespace "a".
type fixture struct {
	*testing.T
	*Registry
	store storage.Store
	clock *testclock.FakePassiveClock
	// warnings are those of all requests.
	warnings *warnings
}

func newFixture(t *testing.T, s setup, resources ...string) *fixture {
	t.Helper()
	f := &fixture{T: t, clock: testclock.NewFakePassiveClock(began), warnings: &warnings{}}
	if f.store = s.store; f.store == nil {
		f.store = memory.New(nil)
	}
	var kinds []*api.Kind
	for _, resource := range resources {
		kind := registrytest.Kind(t, resource)
		if s.kind != nil {
			s.kind(kind)
		}
		kinds = append(kinds, kind)
	}
	config := Config{Scheme: codec.NewScheme(), Clock: f.clock, Admission: s.admission, NoCollector: s.noCollector,
		DeleteWorkers: s.workers}
	for i, c := range registrytest.Caches(t, f.store, kinds...) {
		config.Resources = append(config.Resources, Resource{Kind: kinds[i], Cache: c})
	}
	f.Registry = New(config)
	return f
}

// ctx is that of a request.
func (f *fixture) ctx() context.Context { return warning.WithWarningRecorder(f.Context(), f.warnings) }

// at is the endpoint at a path like "pods/status", in the version that is stored.
func (f *fixture) at(path string) *Endpoint {
	f.Helper()
	resource, sub, _ := strings.Cut(path, "/")
	for key, ep := range f.endpoints {
		if key.Resource == resource && key.Subresource == sub && key.GroupVersion == ep.Kind.Hub {
			return ep
		}
	}
	f.Fatalf("no endpoint is at %s", path)
	return nil
}

func (f *fixture) writer(path, verb, name string) Writer {
	f.Helper()
	ep := f.at(path)
	q := &Request{Verb: verb, Name: name}
	if ep.Kind.Namespaced {
		q.Namespace = "a"
	}
	return ep.Writer(q)
}

func (f *fixture) create(path string, obj api.Object, dryRun ...string) (api.Object, error) {
	f.Helper()
	obj = copyOf(obj)
	if d := f.at(path).Version.Default; d != nil {
		d(obj)
	}
	return objectOf(f.writer(path, "create", "").Create(f.ctx(), obj, &metav1.CreateOptions{DryRun: dryRun}, "tester"))
}

// mustCreate is create of what nothing is wrong with.
func (f *fixture) mustCreate(path string, obj api.Object) api.Object {
	f.Helper()
	out, err := f.create(path, obj)
	if err != nil {
		f.Fatal(err)
	}
	return out
}

// update writes what mutate makes of the current object, as a PUT does that follows a GET.
func (f *fixture) update(path, name string, mutate func(api.Object), dryRun ...string) (api.Object, error) {
	f.Helper()
	e, _, err := f.writer(path, "update", name).Update(f.ctx(), f.change(path, name, mutate, dryRun...))
	return objectOf(e, err)
}

func (f *fixture) change(path, name string, mutate func(api.Object), dryRun ...string) Change {
	f.Helper()
	w := f.writer(path, "update", name)
	return Change{Options: &metav1.UpdateOptions{DryRun: dryRun}, DryRun: dryRun,
		Next: func(current *cache.Entry) (api.Object, error) {
			obj := copyOf(current.Object)
			mutate(obj)
			w.Track(current.Object, obj, "tester")
			return obj, nil
		}}
}

func (f *fixture) delete(path, name string, o *metav1.DeleteOptions) (obj api.Object, gone bool, err error) {
	f.Helper()
	if o == nil {
		o = &metav1.DeleteOptions{}
	}
	e, gone, err := f.writer(path, "delete", name).Delete(f.ctx(), o)
	obj, err = objectOf(e, err)
	return obj, gone, err
}

// get is what is stored of an object; nil if there is none.
func (f *fixture) get(path, name string) api.Object {
	f.Helper()
	obj, _ := objectOf(f.writer(path, "get", name).Get(f.ctx(), ""))
	return obj
}

// settle waits until the cache has what is stored: what begins with an older state is done again.
func (f *fixture) settle(path string) {
	f.Helper()
	if _, err := f.at(path).Cache.List(f.Context(), cache.ListOptions{}); err != nil {
		f.Fatal(err)
	}
}

// revision is that of the store, which each write raises.
func (f *fixture) revision() int64 {
	f.Helper()
	out, err := f.store.Revision(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return out
}

// unwritten checks that nothing is written meanwhile. It is to be deferred: defer f.unwritten()().
func (f *fixture) unwritten() func() {
	f.Helper()
	before := f.revision()
	return func() {
		f.Helper()
		if after := f.revision(); after != before {
			f.Errorf("%d writes reached the store", after-before)
		}
	}
}

// fails checks the text of an error.
func (f *fixture) fails(err error, want string) {
	f.Helper()
	if got := textOf(err); got != want {
		f.Errorf("got error\n%s\nwant\n%s", got, want)
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func objectOf(e *cache.Entry, err error) (api.Object, error) {
	if err != nil {
		return nil, err
	}
	return e.Object, nil
}

// warnings remembers what clients were told.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) AddWarning(_, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// take returns the warnings since the last call.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.texts
	w.texts = nil
	return out
}

// admits is an admission plug-in of functions, which may be nil. It handles all operations.
type admits struct {
	mutate, validate func(a admission.Attributes) error
}

func (admits) Handles(admission.Operation) bool { return true }

func (p admits) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if p.mutate == nil {
		return nil
	}
	return p.mutate(a)
}

func (p admits) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if p.validate == nil {
		return nil
	}
	return p.validate(a)
}

// meta is the metadata of an object of that name, labelled by pairs of keys and values.
func meta(name string, labels ...string) metav1.ObjectMeta {
	out := metav1.ObjectMeta{Name: name}
	for pair := range slices.Chunk(labels, 2) {
		metav1.SetMetaDataLabel(&out, pair[0], pair[1])
	}
	return out
}

// managers are the managers of an object's fields with their operation and subresource, in order.
func managers(obj api.Object) []string {
	var out []string
	for _, e := range obj.GetManagedFields() {
		out = append(out, strings.TrimSuffix(e.Manager+" "+string(e.Operation)+" "+e.Subresource, " "))
	}
	slices.SortFunc(out, cmp.Compare[string])
	return out
}
