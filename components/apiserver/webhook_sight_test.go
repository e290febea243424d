package apiserver_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	hooksv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
)

// sight keeps what a webhook was shown.
type sight struct {
	mu   sync.Mutex
	seen []*admissionv1.AdmissionRequest
}

func (s *sight) look(r *admissionv1.AdmissionRequest, _ *admissionv1.AdmissionResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, r)
}

// take returns, and forgets, what was shown.
func (s *sight) take() []*admissionv1.AdmissionRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

// shown is a field of an object as a webhook gets it, as JSON; "" if it isn't there.
func shown(t *testing.T, raw runtime.RawExtension, path ...string) string {
	t.Helper()
	object := map[string]any{}
	if err := json.Unmarshal(raw.Raw, &object); err != nil {
		t.Fatal(err)
	}
	value, ok, err := unstructured.NestedFieldNoCopy(object, path...)
	if !ok || err != nil {
		return ""
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// patching makes a webhook for each case: it applies the patch to the objects that are labelled for it.
func patching(h *hooks, resource string, patches map[string]string) []hooksv1.MutatingWebhook {
	var list []hooksv1.MutatingWebhook
	for name, patch := range patches {
		h.answer[name] = patchOf(patch)
		hook := mutating(name, h.at(name), resource)
		hook.ObjectSelector = labelled(name)
		list = append(list, hook)
	}
	return list
}

// TestWebhooksSeeWhatOthersMade: what validates is shown the object as those before left it, under the name that was
// asked for, though not all of that is kept.
func TestWebhooksSeeWhatOthersMade(t *testing.T) {
	f, h := start(t), newHooks(t)
	c, told := f.client(t), &sight{}
	h.answer["look"], h.answer["watch"] = told.look, told.look
	watch := mutating("watch", h.at("watch"), "configmaps")
	watch.ObjectSelector = labelled("kindless")
	installMutating(t, c, append(patching(h, "configmaps", map[string]string{
		"rename":   `[{"op":"replace","path":"/metadata/name","value":"other"}]`,
		"link":     `[{"op":"add","path":"/metadata/selfLink","value":"/x"}]`,
		"end":      `[{"op":"add","path":"/metadata/deletionTimestamp","value":"2020-01-01T00:00:00Z"}]`,
		"kindless": `[{"op":"remove","path":"/kind"}]`,
	}), watch)...)
	install(t, c, validating("look", h.at("look"), "configmaps"))
	ends := `"2020-01-01T00:00:00Z"`
	for _, tt := range []struct {
		name string
		path []string
		want []string // the field in what is shown
		kept string   // and in the answer
	}{
		{"rename", []string{"metadata", "name"}, []string{`"other"`}, `"other"`},
		{"link", []string{"metadata", "selfLink"}, []string{`"/x"`}, ""},
		{"end", []string{"metadata", "deletionTimestamp"}, []string{ends}, ends},
		{"kindless", []string{"kind"}, []string{"", `"ConfigMap"`}, `"ConfigMap"`},
	} {
		body, err := c.CoreV1().RESTClient().Post().Namespace("default").Resource("configmaps").Body(
			configMapFor(tt.name)).
			SetHeader("Accept", "application/json").Do(t.Context()).Raw()
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var got []string
		for _, r := range told.take() {
			got = append(got, shown(t, r.Object, tt.path...))
			if r.Name != tt.name {
				t.Errorf("%s is shown as %s", tt.name, r.Name)
			}
		}
		if kept := shown(t, runtime.RawExtension{Raw: body}, tt.path...); !slices.Equal(got, tt.want) ||
			kept != tt.kept {
			t.Errorf("%s: shown %q, want %q; kept %q, want %q", tt.name, got, tt.want, kept, tt.kept)
		}
	}
}

// TestWebhooksChangeCustom: what webhooks make of custom resources is shown to those after them, whatever the schema
// says, and held against it when it is stored.
func TestWebhooksChangeCustom(t *testing.T) {
	f, h := startCustom(t), newHooks(t)
	c, told := f.client(t), &sight{}
	h.answer["look"] = told.look
	hooks := patching(h, "widgets", map[string]string{
		"unknown": `[{"op":"add","path":"/spec/unknown","value":1},{"op":"add","path":"/metadata/unknown","value":1}]`,
		"kind":    `[{"op":"replace","path":"/kind","value":"Gadget"}]`,
		"version": `[{"op":"replace","path":"/apiVersion","value":"example.com/v9"}]`,
		"label":   `[{"op":"add","path":"/metadata/labels/n","value":5}]`,
		"null":    `[{"op":"replace","path":"/spec","value":null}]`,
	})
	installMutating(t, c, hooks...)
	beta := validating("look", h.at("look"), "widgets")
	beta.Rules[0].APIVersions = []string{"v1beta1"} // to which what is shown is converted
	install(t, c, beta)
	for name, want := range map[string]struct {
		code int32
		text string
	}{
		"unknown": {http.StatusCreated, ""},
		"kind": {http.StatusUnprocessableEntity,
			`Gadget.example.com "kind" is invalid: kind: Invalid value: "Gadget": must be Widget`},
		"version": {http.StatusInternalServerError,
			"request to convert CR from an invalid group/version: example.com/v9"},
		"label": {http.StatusInternalServerError,
			"json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"},
		"null": {http.StatusUnprocessableEntity, `spec: Invalid value: "null"`},
	} {
		w := widget(t, name, "spec: {color: red}")
		w.SetLabels(labelled(name).MatchLabels)
		made, err := f.widgets().Create(t.Context(), w, metav1.CreateOptions{})
		seen := told.take()
		if want.text != "" {
			status, ok := err.(apierrors.APIStatus)
			if !ok || status.Status().Code != want.code || !strings.Contains(err.Error(), want.text) {
				t.Errorf("%s: %v, want %d %s", name, err, want.code, want.text)
			}
			continue
		}
		if err != nil || len(seen) != 1 {
			t.Errorf("%s: %v, shown %d times", name, err, len(seen))
			continue
		}
		for _, field := range []string{"spec", "metadata"} {
			kept, _, err := unstructured.NestedFieldNoCopy(made.Object, field, "unknown")
			if got := shown(t, seen[0].Object, field, "unknown"); got != "1" || kept != nil || err != nil {
				t.Errorf("%s.unknown: shown %q, kept %v, %v", field, got, kept, err)
			}
		}
	}
}

// TestWebhooksSeeDeletions: they are shown the grace period that an object gets, and once more what was marked, or lost
// its finalizers, before it goes.
func TestWebhooksSeeDeletions(t *testing.T) {
	f, h := start(t), newHooks(t)
	c, told := f.client(t), &sight{}
	h.answer["look"] = told.look
	look := validating("look", h.at("look"), "pods", "configmaps")
	look.Rules[0].Operations = []hooksv1.OperationType{hooksv1.Delete}
	install(t, c, look)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := c.CoreV1().ServiceAccounts("default").Create(t.Context(), account,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	grace := func(seconds int64) metav1.DeleteOptions { return metav1.DeleteOptions{GracePeriodSeconds: &seconds} }
	background := metav1.DeletePropagationBackground
	for _, tt := range []struct {
		name, node string
		finalizers []string
		deletes    []metav1.DeleteOptions
		want       []string // grace periods and marks that are shown
	}{
		{name: "waiting", deletes: []metav1.DeleteOptions{{}}, want: []string{"0 unmarked", "0 marked"}},
		{name: "bound", node: "n", deletes: []metav1.DeleteOptions{{}, {}, grace(40), grace(0)},
			want: []string{"30 unmarked", "0 marked", "0 marked"}}, // nothing of those that change nothing
		{name: "orphans", finalizers: []string{metav1.FinalizerOrphanDependents},
			deletes: []metav1.DeleteOptions{{PropagationPolicy: &background}},
			want:    []string{"0 unmarked", "0 marked"}},
	} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: tt.name, Finalizers: tt.finalizers},
			Spec:       corev1.PodSpec{NodeName: tt.node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		if _, err := c.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for i, o := range tt.deletes {
			if _, err := c.CoreV1().Pods("default").Get(t.Context(), tt.name, metav1.GetOptions{}); err != nil {
				// the server may look at an old state first, but not after this
				t.Errorf("%s, before deletion %d: %v", tt.name, i, err)
			}
			if err := c.CoreV1().Pods("default").Delete(t.Context(), tt.name, o); err != nil {
				t.Errorf("%s, deletion %d: %v", tt.name, i, err)
			}
		}
		var got []string
		for _, r := range told.take() {
			mark := " unmarked"
			if shown(t, r.OldObject, "metadata", "deletionTimestamp") != "" {
				mark = " marked"
			}
			got = append(got, shown(t, r.Options, "gracePeriodSeconds")+mark)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: shown %q, want %q", tt.name, got, tt.want)
		}
	}
	seenWithoutGrace(t, c, told)
}

// seenWithoutGrace: what has no grace period is shown once, or twice if it loses a finalizer for its deletion.
func seenWithoutGrace(t *testing.T, c kubernetes.Interface, told *sight) {
	background := metav1.DeletePropagationBackground
	for name, want := range map[string]int{"plain": 1, "orphans": 2} {
		m := configMapFor(name)
		if want == 2 {
			m.Finalizers = []string{metav1.FinalizerOrphanDependents}
		}
		if _, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		err := c.CoreV1().ConfigMaps("default").Delete(t.Context(), name,
			metav1.DeleteOptions{PropagationPolicy: &background})
		if seen := len(told.take()); seen != want || err != nil {
			t.Errorf("%s: shown %d times, want %d; %v", name, seen, want, err)
		}
	}
}
