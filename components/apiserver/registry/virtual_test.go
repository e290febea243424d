package registry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// TestVirtualReads: what is read from elsewhere is found by its name, and chosen by selectors.
func TestVirtualReads(t *testing.T) {
	f := newFixture(t, setup{kind: func(k *api.Kind) {
		k.Read = func(_ context.Context, name string) (out []api.Object) {
			for _, obj := range []api.Object{
				&corev1.ComponentStatus{ObjectMeta: meta("etcd-0", "a", "1")},
				&corev1.ComponentStatus{ObjectMeta: meta("scheduler")},
			} {
				if name == "" || obj.GetName() == name {
					out = append(out, obj)
				}
			}
			return out
		}
	}}, "componentstatuses")
	e, err := f.writer("componentstatuses", "get", "etcd-0").ReadOne(f.ctx())
	if err != nil || e.Object.GetName() != "etcd-0" {
		t.Errorf("read %v, %v", e, err)
	}
	_, err = f.writer("componentstatuses", "get", "none").ReadOne(f.ctx())
	f.fails(err, `componentstatus "none" not found`)
	for what, c := range map[string]struct {
		chosen cache.Predicate
		want   string
	}{
		"all":        {cache.Predicate{}, "etcd-0 scheduler"},
		"by label":   {cache.Predicate{Label: labels.SelectorFromSet(labels.Set{"a": "1"})}, "etcd-0"},
		"by field":   {cache.Predicate{Field: fields.OneTermEqualSelector("metadata.name", "scheduler")}, "scheduler"},
		"by neither": {cache.Predicate{Field: fields.OneTermEqualSelector("metadata.name", "x")}, ""},
		"by both": {cache.Predicate{Label: labels.SelectorFromSet(labels.Set{"a": "1"}),
			Field: fields.OneTermEqualSelector("metadata.name", "scheduler")}, ""},
	} {
		l := f.writer("componentstatuses", "list", "").ReadAll(f.ctx(), c.chosen)
		if got := strings.Join(names(l.Entries), " "); got != c.want {
			t.Errorf("%s: %q", what, got)
		}
	}
}

// TestAnswer: an object that is only answered goes the way of one that is stored, but for the store.
func TestAnswer(t *testing.T) {
	var steps []string
	failing := ""
	step := func(name string) error {
		if steps = append(steps, name); name == failing {
			return errors.New("no")
		}
		return nil
	}
	f := newFixture(t, setup{
		admission: admits{recorded(step, "mutating"), recorded(step, "validating")},
		kind: func(k *api.Kind) {
			k.CreateFunc = func(_ context.Context, obj api.Object, asked api.CreateRequest) (api.Object, error) {
				steps = append(steps, map[bool]string{false: "answer", true: "answer dry"}[asked.DryRun])
				if err := asked.Admit(); err != nil {
					return nil, err
				}
				return obj, nil
			}
		}}, "tokenreviews")
	defer f.unwritten()()
	for _, c := range []struct {
		failing string
		dryRun  []string
		want    []string
	}{
		{"", nil, []string{"mutating", "answer", "validating"}},
		{"", []string{metav1.DryRunAll}, []string{"mutating", "answer dry", "validating"}},
		{"mutating", nil, []string{"mutating"}},
		{"validating", nil, []string{"mutating", "answer", "validating"}},
	} {
		steps, failing = nil, c.failing
		w := f.writer("tokenreviews", "create", "")
		sent, err := w.NewBody()
		if err != nil {
			t.Fatal(err)
		}
		sent.SetUID("made-up")
		sent.SetCreationTimestamp(metav1.Unix(1, 0))
		obj, err := w.CreateVirtual(f.ctx(), sent, &metav1.CreateOptions{DryRun: c.dryRun}, "tester")
		if (err == nil) != (c.failing == "") || !slices.Equal(steps, c.want) {
			t.Errorf("failing at %q: %q, %v", c.failing, steps, err)
		}
		if at := sent.GetCreationTimestamp(); err == nil && (obj.GetUID() != "" || !at.IsZero()) {
			t.Errorf("answered %v", obj)
		}
	}
}

// TestAdmitAction: the body of an action belongs to the request's namespace, has its fields tracked for admission to
// see, and is validated when the action says so.
func TestAdmitAction(t *testing.T) {
	var seen []string
	f := newFixture(t, setup{admission: admits{
		func(a admission.Attributes) error {
			seen = append(seen, "mutating "+a.GetKind().Kind+" "+strings.Join(managers(a.GetObject().(api.Object)),
				","))
			return nil
		},
		func(a admission.Attributes) error {
			seen = append(seen, "validating "+a.GetSubresource()+" of "+a.GetName())
			return errors.New("denied")
		},
	}}, "pods")
	w := f.writer("pods/eviction", "create", "p")
	if body, err := w.NewBody(); err != nil {
		t.Error(err)
	} else if _, ok := body.(*policyv1.Eviction); !ok {
		t.Errorf("the body is a %T", body)
	}
	body := &policyv1.Eviction{ObjectMeta: meta("p"),
		DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}}
	validate, err := w.AdmitAction(f.ctx(), body, &metav1.CreateOptions{}, "tester")
	if err != nil || body.Namespace != "a" || !slices.Equal(seen,
		[]string{"mutating Eviction tester Update eviction"}) {
		t.Errorf("admitted %v, %q, %v", body, seen, err)
	}
	seen = nil
	f.fails(validate(body), "denied")
	if !slices.Equal(seen, []string{"validating eviction of p"}) {
		t.Errorf("validated %q", seen)
	}
	body.Namespace = "b"
	_, err = w.AdmitAction(f.ctx(), body, &metav1.CreateOptions{}, "tester")
	f.fails(err, "the namespace of the provided object does not match the namespace sent on the request")
}

// TestAdmitConnect: both halves of admission see the parameters of a connection, and the first may change them.
func TestAdmitConnect(t *testing.T) {
	var kinds []string
	f := newFixture(t, setup{admission: admits{
		func(a admission.Attributes) error {
			a.GetObject().(*corev1.PodExecOptions).Command = []string{"other"}
			kinds = append(kinds, string(a.GetOperation())+" "+a.GetKind().Kind+" "+a.GetSubresource())
			return nil
		},
		func(a admission.Attributes) error {
			kinds = append(kinds, a.GetObject().(*corev1.PodExecOptions).Command[0])
			return nil
		},
	}}, "pods")
	o := &corev1.PodExecOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodExecOptions"}}
	w := f.writer("pods/exec", "connect", "p")
	if err := w.AdmitConnect(f.ctx(), runtime.Object(o)); err != nil ||
		!slices.Equal(kinds, []string{"CONNECT PodExecOptions exec", "other"}) {
		t.Errorf("admission saw %q, %v", kinds, err)
	}
	if w.GVK.Kind == "PodExecOptions" {
		t.Error("the endpoint is changed")
	}
}
