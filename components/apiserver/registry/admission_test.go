package registry

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// recorded is a half of a plug-in that is one of the steps of a write.
func recorded(step func(string) error, name string) func(admission.Attributes) error {
	return func(admission.Attributes) error { return step(name) }
}

// TestAttributes: what admission sees of writes.
func TestAttributes(t *testing.T) {
	var seen []string
	show := func(half string) func(admission.Attributes) error {
		return func(a admission.Attributes) error {
			seen = append(seen, fmt.Sprintf("%s %s %s/%s %s %s/%s new:%t old:%t dry:%t %T %s", half, a.GetOperation(),
				a.GetResource().Resource, a.GetSubresource(), a.GetKind().Kind, a.GetNamespace(), a.GetName(),
				a.GetObject() != nil, a.GetOldObject() != nil, a.IsDryRun(), a.GetOperationOptions(),
				a.GetUserInfo().GetName()))
			return nil
		}
	}
	f := newFixture(t, setup{admission: admits{show("mutate"), show("validate")}}, "configmaps", "namespaces", "pods")
	as := func(path, verb, name string) Writer {
		w := f.writer(path, verb, name)
		w.User = &user.DefaultInfo{Name: "jane"}
		return w
	}
	both := func(format string) []string {
		return []string{"mutate " + format + " jane", "validate " + format + " jane"}
	}
	made := &metav1.CreateOptions{}
	for _, c := range []struct {
		what string
		do   func() error
		want []string
	}{
		{"a creation", func() error {
			_, err := as("configmaps", "create", "").Create(f.ctx(), &corev1.ConfigMap{ObjectMeta: meta("x")}, made, "")
			return err
		}, both("CREATE configmaps/ ConfigMap a/x new:true old:false dry:false *v1.CreateOptions")},
		{"a dry run", func() error {
			_, err := as("configmaps", "create", "").Create(f.ctx(), &corev1.ConfigMap{ObjectMeta: meta("y")},
				&metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}, "")
			return err
		}, both("CREATE configmaps/ ConfigMap a/y new:true old:false dry:true *v1.CreateOptions")},
		{"a namespace, which is in itself", func() error {
			_, err := as("namespaces", "create", "").Create(f.ctx(), &corev1.Namespace{ObjectMeta: meta("n")}, made, "")
			return err
		}, both("CREATE namespaces/ Namespace n/n new:true old:false dry:false *v1.CreateOptions")},
		{"a change", func() error {
			_, _, err := as("configmaps", "update", "x").Update(f.ctx(), f.change("configmaps", "x",
				func(obj api.Object) {
					obj.SetLabels(map[string]string{"a": "1"})
				}))
			return err
		}, both("UPDATE configmaps/ ConfigMap a/x new:true old:true dry:false *v1.UpdateOptions")},
		{"a deletion", func() error {
			f.settle("configmaps") // else it is shown what the cache had first, too
			_, _, err := as("configmaps", "delete", "x").Delete(f.ctx(), &metav1.DeleteOptions{})
			return err
		}, both("DELETE configmaps/ ConfigMap a/x new:false old:true dry:false *v1.DeleteOptions")},
	} {
		seen = nil
		if err := c.do(); err != nil || !slices.Equal(seen, c.want) {
			t.Errorf("%s: %v\ngot  %q\nwant %q", c.what, err, seen, c.want)
		}
	}
}

// TestNameOfGenerated: mutating admission sees that there is no name yet, validating admission sees the one that was
// made.
func TestNameOfGenerated(t *testing.T) {
	var mutating, validating, uid string
	f := newFixture(t, setup{admission: admits{
		func(a admission.Attributes) error {
			mutating, uid = a.GetName(), string(a.GetObject().(api.Object).GetUID())
			return nil
		},
		func(a admission.Attributes) error { validating = a.GetName(); return nil },
	}}, "configmaps")
	obj := f.mustCreate("configmaps",
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "b-", UID: "made-up"}})
	if mutating != "" || validating != obj.GetName() || uid != "" {
		t.Errorf("mutating saw %q and uid %q, validating %q of %q", mutating, uid, validating, obj.GetName())
	}
}

// TestWhatAdmissionMayChange: content, but not where the object is, nor what the system says of it.
func TestWhatAdmissionMayChange(t *testing.T) {
	for name, c := range map[string]struct {
		mutate func(obj *corev1.ConfigMap)
		fails  string
		check  func(obj api.Object) bool
	}{
		"labels": {
			func(obj *corev1.ConfigMap) { obj.Labels = map[string]string{"l": "1"} }, "",
			func(obj api.Object) bool { return obj.GetLabels()["l"] == "1" },
		},
		"the namespace": {
			func(obj *corev1.ConfigMap) { obj.Namespace = "b" },
			"the namespace of the provided object does not match the namespace sent on the request", nil,
		},
		"the uid": {
			func(obj *corev1.ConfigMap) { obj.UID = "made-up" }, "",
			func(obj api.Object) bool { return obj.GetUID() != "made-up" && obj.GetUID() != "" },
		},
		"the time": {
			func(obj *corev1.ConfigMap) { obj.CreationTimestamp = metav1.Unix(1, 0) }, "",
			func(obj api.Object) bool { at := obj.GetCreationTimestamp(); return at.Time.Equal(began) },
		},
		"the self link": {
			func(obj *corev1.ConfigMap) { obj.SelfLink = "/x" }, "",
			func(obj api.Object) bool { return obj.GetSelfLink() == "" },
		},
		"something invalid": {
			func(obj *corev1.ConfigMap) { obj.Finalizers = []string{"f"} },
			`ConfigMap "x" is invalid: metadata.finalizers[0]: Invalid value: "f": name is neither a standard ` +
				`finalizer ` +
				`name nor is it fully qualified`, nil,
		},
	} {
		f := newFixture(t, setup{admission: admits{mutate: func(a admission.Attributes) error {
			c.mutate(a.GetObject().(*corev1.ConfigMap))
			return nil
		}}}, "configmaps")
		obj, err := f.create("configmaps", &corev1.ConfigMap{ObjectMeta: meta("x")})
		f.fails(err, c.fails)
		if err == nil && !c.check(obj) {
			t.Errorf("%s: stored %+v", name, obj)
		}
	}
}

// TestManagedFieldsOfAdmission: entries that can't be are not taken, which the client is told of; others are.
func TestManagedFieldsOfAdmission(t *testing.T) {
	entry := metav1.ManagedFieldsEntry{Manager: "webhook", Operation: "Update", APIVersion: "v1",
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`)}
	broken := entry
	broken.Operation = "Guess"
	for name, c := range map[string]struct {
		given    []metav1.ManagedFieldsEntry
		want     []string
		warnings int
	}{
		"none":   {nil, nil, 0},
		"others": {[]metav1.ManagedFieldsEntry{entry}, []string{"webhook Update"}, 0},
		"broken": {[]metav1.ManagedFieldsEntry{broken}, []string{"tester Update"}, 1},
	} {
		f := newFixture(t, setup{admission: admits{mutate: func(a admission.Attributes) error {
			a.GetObject().(api.Object).SetManagedFields(c.given)
			return nil
		}}}, "configmaps")
		obj := f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: meta("x"), Data: map[string]string{"k": "v"}})
		told := f.warnings.take()
		if got := managers(obj); !slices.Equal(got, c.want) || len(told) != c.warnings {
			t.Errorf("%s: managed by %q, warned %q", name, got, told)
		}
		const want = ".metadata.managedFields was in an invalid state after admission; this could be caused by an " +
			"outdated mutating admission controller; please fix your requests: " +
			"operation must be `Apply` or `Update`"
		if c.warnings > 0 && told[0] != want {
			t.Errorf("%s: told %s", name, told[0])
		}
	}
}

// TestDuplicateOwners: the first of references that are the same stays; those that a client sent and those that came by
// admission are told apart.
func TestDuplicateOwners(t *testing.T) {
	ref := func(uid types.UID, name string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: uid}
	}
	one, two, renamed := ref("1", "one"), ref("2", "two"), ref("1", "other")
	const rest = "API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please " +
		"fix your requests; duplicate UID(s) observed: "
	const sent = ".metadata.ownerReferences contains duplicate entries; " + rest
	const admitted = ".metadata.ownerReferences contains duplicate entries after mutating admission happens; " + rest
	for name, c := range map[string]struct {
		sent, added []metav1.OwnerReference
		want        int
		warnings    []string
	}{
		"none":                     {[]metav1.OwnerReference{one, two}, nil, 2, nil},
		"sent":                     {[]metav1.OwnerReference{one, two, one, one}, nil, 2, []string{sent + "1, 1"}},
		"only the uid is the same": {[]metav1.OwnerReference{one, renamed}, nil, 2, nil},
		"by admission": {[]metav1.OwnerReference{one}, []metav1.OwnerReference{one}, 1, []string{admitted +
			"1"}},
		"first sent, then by admission": {[]metav1.OwnerReference{one, one}, []metav1.OwnerReference{two, two}, 2,
			[]string{sent + "1", admitted + "2"}},
	} {
		f := newFixture(t, setup{admission: admits{mutate: func(a admission.Attributes) error {
			obj := a.GetObject().(api.Object)
			if len(c.added) > 0 {
				obj.SetOwnerReferences(append(slices.Clone(obj.GetOwnerReferences()), c.added...))
			}
			return nil
		}}}, "configmaps")
		m := meta("x")
		m.OwnerReferences = c.sent
		obj := f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: m})
		if got := f.warnings.take(); len(obj.GetOwnerReferences()) != c.want || !slices.Equal(got, c.warnings) {
			t.Errorf("%s: %v, warned %q", name, obj.GetOwnerReferences(), got)
		}
	}
}

// TestRefusals: what admission says is what the client gets, and nothing is written, whatever error it is.
func TestRefusals(t *testing.T) {
	refused := admission.Attributes(nil)
	var no error
	say := func(a admission.Attributes) error { refused = a; return no }
	for half, plugin := range map[string]admits{"mutating": {mutate: say}, "validating": {validate: say}} {
		f := newFixture(t, setup{admission: plugin}, "configmaps")
		no = nil
		f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: meta("x")})
		check := f.unwritten()
		for _, no = range []error{
			errors.New("denied"), apierrors.NewNotFound(corev1.Resource("pods"), "p"),
			apierrors.NewAlreadyExists(corev1.Resource("pods"), "p"), apierrors.NewConflict(corev1.Resource("pods"),
				"p",
				errors.New("other")),
		} {
			refused = nil
			_, err := f.create("configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "y"}})
			f.fails(err, no.Error())
			change := f.change("configmaps", "x", func(obj api.Object) { obj.SetLabels(map[string]string{"a": "1"}) })
			created := false
			change.First = func() (api.Object, error) { created = true; return nil, no }
			_, _, err = f.writer("configmaps", "update", "x").Update(f.ctx(), change)
			f.fails(err, no.Error())
			_, _, err = f.delete("configmaps", "x", nil)
			f.fails(err, no.Error())
			if created || refused == nil {
				t.Errorf("%s: %v: an object that a webhook didn't find is created", half, no)
			}
		}
		check()
	}
}
