package registry

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

func deployment(m metav1.ObjectMeta) *appsv1.Deployment {
	labels := map[string]string{"app": "x"}
	return &appsv1.Deployment{ObjectMeta: m, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "i"}}},
		},
	}}
}

// pod is one that runs on a node, if that isn't "".
func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: meta(name), Spec: corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "i"}},
	}}
}

// TestCreateMetadata: the system's own metadata is the system's, and the rest the client's.
func TestCreateMetadata(t *testing.T) {
	f := newFixture(t, setup{}, "configmaps", "deployments", "namespaces")
	sent := meta("x", "l", "1")
	sent.UID, sent.SelfLink, sent.Generation = "made-up", "/made/up", 7
	sent.CreationTimestamp = metav1.NewTime(began.Add(-time.Hour))
	sent.DeletionTimestamp, sent.DeletionGracePeriodSeconds = &metav1.Time{Time: began}, new(int64(30))
	sent.Annotations, sent.Finalizers = map[string]string{"n": "1"}, []string{"example.com/f"}
	f.clock.SetTime(began.Add(1700 * time.Millisecond))
	uids := map[string]bool{}
	for path, c := range map[string]struct {
		obj        api.Object
		namespace  string
		generation int64
	}{
		"configmaps":  {&corev1.ConfigMap{ObjectMeta: sent}, "a", 7}, // of which nothing is said: it is the client's
		"deployments": {deployment(sent), "a", 1},
		"namespaces":  {&corev1.Namespace{ObjectMeta: sent}, "", 7},
	} {
		obj := f.mustCreate(path, c.obj)
		at := obj.GetCreationTimestamp()
		if !at.Time.Equal(began.Add(time.Second)) {
			t.Errorf("%s: created at %v, which is to be in whole seconds", path, at)
		}
		if obj.GetNamespace() != c.namespace || obj.GetGeneration() != c.generation || obj.GetSelfLink() != "" ||
			obj.GetDeletionTimestamp() != nil || obj.GetDeletionGracePeriodSeconds() != nil {
			t.Errorf("%s: stored %+v", path, obj)
		}
		if obj.GetLabels()["l"] != "1" || obj.GetAnnotations()["n"] != "1" || len(obj.GetFinalizers()) != 1 {
			t.Errorf("%s: the client's metadata is lost: %+v", path, obj)
		}
		uid := string(obj.GetUID())
		if !uuidForm.MatchString(uid) || uids[uid] {
			t.Errorf("%s: uid %q", path, uid)
		}
		uids[uid] = true
		if obj.GetResourceVersion() != fmt.Sprint(f.revision()) {
			t.Errorf("%s: resource version %s at %d", path, obj.GetResourceVersion(), f.revision())
		}
		if got := managers(obj); !slices.Equal(got, []string{"tester Update"}) {
			t.Errorf("%s: managed by %q", path, got)
		}
	}
}

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// TestGenerateName: a name that is given wins; one that is generated fits a DNS label and has a random end without
// vowels or digits that are read for other ones.
func TestGenerateName(t *testing.T) {
	kind := &api.Kind{}
	whole := &api.Kind{Strategy: api.Strategy[api.Object]{NoGeneratedNames: true}}
	long := strings.Repeat("n", 100)
	for name, c := range map[string]struct {
		kind *api.Kind
		base string
		want string
	}{
		"short":                 {kind, "web-", "^web-[bcdfghjklmnpqrstvwxz2456789]{5}$"},
		"as long as can be":     {kind, long[:58], "^n{58}[bcdfghjklmnpqrstvwxz2456789]{5}$"},
		"cut":                   {kind, long, "^n{58}[bcdfghjklmnpqrstvwxz2456789]{5}$"},
		"of which none is made": {whole, long, "^n{100}$"},
	} {
		if got := generateName(c.kind, c.base); !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("%s: %q", name, got)
		}
	}
	f := newFixture(t, setup{}, "configmaps")
	both := meta("given")
	both.GenerateName = "base-"
	obj := f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: both})
	if obj.GetName() != "given" || obj.GetGenerateName() != "base-" {
		t.Errorf("stored %q of %q", obj.GetName(), obj.GetGenerateName())
	}
	seen := map[string]bool{}
	for range 50 {
		obj := f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "base-"}})
		seen[obj.GetName()] = true
	}
	if len(seen) != 50 {
		t.Errorf("50 objects have %d names", len(seen))
	}
}

// taken is a store that has the next names, whichever they are.
type taken struct {
	storage.Store
	left  int
	names []string
}

func (s *taken) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	s.names = append(s.names, key[strings.LastIndex(key, "/")+1:])
	if s.left > 0 {
		s.left--
		return 0, storage.ErrExists
	}
	return s.Store.Create(ctx, key, value, ttl)
}

// TestGeneratedNameIsTaken: another one is tried, seven times; a name that was given is tried once.
func TestGeneratedNameIsTaken(t *testing.T) {
	for name, c := range map[string]struct {
		taken, tries int
		meta         metav1.ObjectMeta
		fails        string
	}{
		"none": {0, 1, metav1.ObjectMeta{GenerateName: "b-"}, ""},
		"some": {7, 8, metav1.ObjectMeta{GenerateName: "b-"}, ""},
		"all": {8, 8, metav1.ObjectMeta{GenerateName: "b-"}, `configmaps "NAME" already exists, ` +
			`the server was not able to generate a unique name for the object`},
		"the one given": {1, 1, meta("x"), `configmaps "x" already exists`},
		"the one given, beside a base": {1, 1, metav1.ObjectMeta{Name: "x", GenerateName: "b-"},
			`configmaps "x" already exists, the server was not able to generate a unique name for the object`},
	} {
		store := &taken{Store: memory.New(nil), left: c.taken}
		admitted := 0
		f := newFixture(t, setup{store: store}, "configmaps")
		f.config.Admission = nil
		e, err := f.writer("configmaps", "create", "").insert(f.ctx(), &corev1.ConfigMap{ObjectMeta: c.meta},
			creation{options: &metav1.CreateOptions{}, mayCreate: func(context.Context) error {
				admitted++
				return nil
			}})
		last := store.names[len(store.names)-1]
		if got := strings.ReplaceAll(textOf(err), `"`+last+`"`, `"NAME"`); got !=
			strings.ReplaceAll(c.fails, `"x"`, `"NAME"`) || err != nil && !apierrors.IsAlreadyExists(err) {
			t.Errorf("%s: %s", name, got)
		}
		unique := slices.Compact(slices.Sorted(slices.Values(store.names)))
		if len(store.names) != c.tries || len(unique) != c.tries || admitted != c.tries {
			t.Errorf("%s: tried %q, admitted %d", name, store.names, admitted)
		}
		if err == nil && e.Object.GetName() != last {
			t.Errorf("%s: stored as %q, answered %q", name, last, e.Object.GetName())
		}
		var status apierrors.APIStatus
		if generated := c.meta.GenerateName != ""; errors.As(err, &status) &&
			(status.Status().Details.RetryAfterSeconds == 1) != generated {
			t.Errorf("%s: %+v", name, status.Status())
		}
	}
}

// TestCreateWhatExists: the answer tells whether the object there is about to go.
func TestCreateWhatExists(t *testing.T) {
	f := newFixture(t, setup{}, "configmaps")
	f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: meta("x")})
	going := meta("going")
	going.Finalizers = []string{"example.com/f"}
	f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: going})
	if _, gone, err := f.delete("configmaps", "going", nil); gone || err != nil {
		t.Fatal(gone, err)
	}
	defer f.unwritten()()
	for name, want := range map[string]string{
		"x":     `configmaps "x" already exists`,
		"going": `object is being deleted: configmaps "going" already exists`,
	} {
		for _, dryRun := range [][]string{nil, {metav1.DryRunAll}} {
			_, err := f.create("configmaps", &corev1.ConfigMap{ObjectMeta: meta(name)}, dryRun...)
			f.fails(err, want)
			if !apierrors.IsAlreadyExists(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestCreateOfVersion: nothing new has a resource version; a dry run, which doesn't get to the store, takes it.
func TestCreateOfVersion(t *testing.T) {
	f := newFixture(t, setup{}, "configmaps")
	sent := meta("x")
	for _, c := range []struct{ version, fails string }{
		{"12", "resourceVersion should not be set on objects to be created"}, {"0", ""},
	} {
		sent.ResourceVersion = c.version
		_, err := f.create("configmaps", &corev1.ConfigMap{ObjectMeta: sent}, metav1.DryRunAll)
		f.fails(err, "")
		_, err = f.create("configmaps", &corev1.ConfigMap{ObjectMeta: sent})
		f.fails(err, c.fails)
		if err != nil && apierrors.ReasonForError(err) != "" {
			t.Errorf("the reason is %s", apierrors.ReasonForError(err))
		}
	}
}

// TestCreateInvalidMetadata: what is wrong with the metadata is told in Kubernetes' words, all of it at once.
func TestCreateInvalidMetadata(t *testing.T) {
	f := newFixture(t, setup{}, "configmaps", "namespaces")
	defer f.unwritten()()
	const subdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or ` +
		`'.', ` +
		`and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is ` +
		`'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	change := func(f func(*metav1.ObjectMeta)) metav1.ObjectMeta {
		m := meta("x")
		f(&m)
		return m
	}
	for _, c := range []struct {
		path  string
		meta  metav1.ObjectMeta
		fails string
	}{
		{"configmaps", meta("A_b"), `ConfigMap "A_b" is invalid: metadata.name: Invalid value: "A_b": ` + subdomain},
		{"namespaces", meta("a.b"),
			`Namespace "a.b" is invalid: metadata.name: Invalid value: "a.b": must not contain dots`},
		{"configmaps", meta(""), ` "" is invalid: metadata.name: Required value: name or generateName is required`},
		{"configmaps", change(func(m *metav1.ObjectMeta) { m.Generation = -1 }), `ConfigMap "x" is invalid: ` +
			`metadata.generation: Invalid value: -1: must be greater than or equal to 0`},
		{"configmaps", change(func(m *metav1.ObjectMeta) { m.Finalizers = []string{"f"} }),
			`ConfigMap "x" is invalid: ` +
				`metadata.finalizers[0]: Invalid value: "f": name is neither a standard finalizer name nor is it ` +
				`fully qualified`},
		{"configmaps", change(func(m *metav1.ObjectMeta) {
			m.Finalizers = []string{metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}
		}), `ConfigMap "x" is invalid: metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: ` +
			`finalizer orphan and foregroundDeletion cannot be both set`},
		{"configmaps", change(func(m *metav1.ObjectMeta) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p"}}
		}), `ConfigMap "x" is invalid: metadata.ownerReferences.uid: Invalid value: "": must not be empty`},
		{"configmaps", change(func(m *metav1.ObjectMeta) { m.Namespace = "b" }),
			"the namespace of the provided object does not match the namespace sent on the request"},
	} {
		obj := api.Object(&corev1.ConfigMap{ObjectMeta: c.meta})
		if c.path == "namespaces" {
			obj = &corev1.Namespace{ObjectMeta: c.meta}
		}
		_, err := f.create(c.path, obj)
		f.fails(err, strings.Replace(c.fails, ` "" is`, `ConfigMap "" is`, 1))
	}
}

// TestCreateHooks: the steps of a creation follow each other as they do upstream, and an error ends them.
func TestCreateHooks(t *testing.T) {
	var steps []string
	failing := ""
	step := func(name string) error {
		if steps = append(steps, name); name == failing {
			return errors.New("no")
		}
		return nil
	}
	faults := func(name string) field.ErrorList {
		if step(name) != nil {
			return field.ErrorList{field.Forbidden(field.NewPath("spec"), "no")}
		}
		return nil
	}
	kind := func(k *api.Kind) {
		k.Strategy = api.Strategy[api.Object]{
			Allocate: func(context.Context, api.Object, api.Object, bool) (func(api.Outcome), error) {
				err := step("allocate")
				return func(o api.Outcome) {
					steps = append(steps, map[api.Outcome]string{
						api.Stored: "stored", api.NotStored: "not stored", api.Unsure: "unsure"}[o])
				}, err
			},
			PrepareCreate: func(context.Context, api.Object) { _ = step("prepare") },
			Authorize:     func(context.Context, api.Object) field.ErrorList { return faults("authorize") },
			Validate:      func(context.Context, api.Object) field.ErrorList { return faults("validate") },
			Warnings: func(_ context.Context, _, old api.Object) []string {
				_ = step("warn")
				return []string{fmt.Sprint(old == nil)}
			},
			Canonicalize: func(api.Object) { _ = step("canonicalize") },
		}
	}
	plugin := admits{recorded(step, "mutating"), recorded(step, "validating")}
	all := []string{"mutating", "allocate", "prepare", "authorize", "validate", "warn", "canonicalize", "may create",
		"validating"}
	for _, c := range []struct {
		failing string
		want    []string
	}{
		{"", append(slices.Clone(all), "stored")},
		{"mutating", all[:1]},
		{"allocate", all[:2]},
		{"authorize", append(slices.Clone(all[:5]), "not stored")}, // of all that is wrong clients are told at once
		{"validate", append(slices.Clone(all[:5]), "not stored")},
		{"may create", append(slices.Clone(all[:8]), "not stored")},
		{"validating", append(slices.Clone(all[:9]), "not stored")},
	} {
		steps, failing = nil, c.failing
		f := newFixture(t, setup{admission: plugin, kind: kind}, "configmaps")
		_, err := f.writer("configmaps", "create", "").insert(f.ctx(), &corev1.ConfigMap{ObjectMeta: meta("x")},
			creation{
				options: &metav1.CreateOptions{}, mayCreate: func(context.Context) error { return step("may create") }})
		if (err == nil) != (c.failing == "") || !slices.Equal(steps, c.want) {
			t.Errorf("failing at %q: %q, %v", c.failing, steps, err)
		}
		if stored := f.get("configmaps", "x") != nil; stored != (err == nil) {
			t.Errorf("failing at %q: stored %t", c.failing, stored)
		}
		if told := f.warnings.take(); (len(told) == 1 && told[0] == "true") != slices.Contains(steps, "warn") {
			t.Errorf("failing at %q: warned %q", c.failing, told)
		}
	}
}
