package apiserver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// notALetter is said of names that begin with another sign.
const notALetter = `a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character`

// TestGateRelaxedServiceNameValidation: what was written with it can be changed without.
func TestGateRelaxedServiceNameValidation(t *testing.T) {
	store := memory.New(clock.RealClock{})
	t.Cleanup(func() { _ = store.Close() })
	for _, on := range []bool{true, false} {
		f := start(t, func(c *options.Config) { c.Store = store },
			gated(map[string]bool{"RelaxedServiceNameValidation": on}))
		client := f.client(t)
		check := func(what string, err error, field string) {
			t.Helper()
			if on && err != nil || !on &&
				(!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), field+": Invalid value") ||
					!strings.Contains(err.Error(), notALetter)) {
				t.Errorf("%v: %s: %v", on, what, err)
			}
		}
		check("a service", createService(t.Context(), client, metav1.ObjectMeta{Name: fmt.Sprintf("1-%v", on)}),
			"metadata.name")
		check("a service of a generated name",
			createService(t.Context(), client, metav1.ObjectMeta{GenerateName: "10-"}), "metadata.generateName")
		ingresses := client.NetworkingV1().Ingresses("default")
		_, err := ingresses.Create(t.Context(), ingressTo("default-"+fmt.Sprint(on), "1-a"), metav1.CreateOptions{})
		check("an ingress", err, "spec.defaultBackend.service.name")
		_, err = ingresses.Create(t.Context(), ingressTo("path-"+fmt.Sprint(on), "a", "1-a"), metav1.CreateOptions{})
		check("a path of an ingress", err, "spec.rules[0].http.paths[0].backend.service.name")

		if err := createService(t.Context(), client, metav1.ObjectMeta{Name: fmt.Sprintf("a-%v", on)}); err != nil {
			t.Error(err)
		}
		if _, err := ingresses.Create(t.Context(), ingressTo("plain-"+fmt.Sprint(on), "a"),
			metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		_, err = ingresses.Update(t.Context(), ingressTo("plain-"+fmt.Sprint(on), "1-a"), metav1.UpdateOptions{})
		check("an ingress that is sent elsewhere", err, "spec.defaultBackend.service.name")
		if on {
			f.stop()
			continue
		}
		for _, was := range []string{"default-true", "path-true"} {
			if _, err := ingresses.Update(t.Context(), ingressTo(was, "2-b", "3-c"),
				metav1.UpdateOptions{}); err != nil {
				t.Errorf("%s has such a name: %v", was, err)
			}
			if _, err := ingresses.Update(t.Context(), ingressTo(was, "B"),
				metav1.UpdateOptions{}); !apierrors.IsInvalid(err) || strings.Contains(err.Error(), notALetter) {
				t.Errorf("%s gets one of no kind: %v", was, err)
			}
		}
		if _, err := client.CoreV1().Services("default").Patch(t.Context(), "1-true", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
			t.Errorf("a service that is there: %v", err)
		}
	}
}

func createService(ctx context.Context, client kubernetes.Interface, meta metav1.ObjectMeta) error {
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	_, err := client.CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{})
	return err
}

// ingressTo sends to a service, and what comes for a path to another.
func ingressTo(name, service string, paths ...string) *networkingv1.Ingress {
	backend := func(name string) networkingv1.IngressBackend {
		return networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Number: 80}}}
	}
	i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networkingv1.IngressSpec{DefaultBackend: new(backend(service))}}
	for _, path := range paths {
		i.Spec.Rules = append(i.Spec.Rules,
			networkingv1.IngressRule{
				IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
					Paths: []networkingv1.HTTPIngressPath{
						{Path: "/", PathType: new(networkingv1.PathTypePrefix), Backend: backend(path)}},
				}}})
	}
	return i
}

// TestGateServiceCIDRStatusFieldWiping: without it, who writes a range writes its status.
func TestGateServiceCIDRStatusFieldWiping(t *testing.T) {
	for _, on := range []bool{true, false} {
		cidrs := start(t, gated(map[string]bool{"ServiceCIDRStatusFieldWiping": on})).client(
			t).NetworkingV1().ServiceCIDRs()
		saying := func(reason string) networkingv1.ServiceCIDRStatus {
			return networkingv1.ServiceCIDRStatus{
				Conditions: []metav1.Condition{
					{Type: "Ready", Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.Now()}}}
		}
		check := func(what string, got *networkingv1.ServiceCIDR, err error, with, without string) {
			t.Helper()
			if err != nil {
				t.Fatalf("%v: %s: %v", on, what, err)
			}
			want, reason := map[bool]string{true: with, false: without}[on], ""
			for _, c := range got.Status.Conditions {
				reason += c.Reason
			}
			if reason != want {
				t.Errorf("%v: %s: the status says %q, want %q", on, what, reason, want)
			}
		}
		cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "c"},
			Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/24"}}, Status: saying("Created")}
		got, err := cidrs.Create(t.Context(), cidr, metav1.CreateOptions{})
		check("created", got, err, "", "Created")
		got.Status = saying("Told")
		got, err = cidrs.UpdateStatus(t.Context(), got, metav1.UpdateOptions{})
		check("told", got, err, "Told", "Told")
		got.Status = saying("Updated")
		got, err = cidrs.Update(t.Context(), got, metav1.UpdateOptions{})
		check("updated", got, err, "Told", "Updated")
		const applied = `{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"c"},"status":{"conditions":[` +
			`{"type":"Ready","status":"False","reason":"Applied","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
		got, err = cidrs.Patch(t.Context(), "c", types.ApplyPatchType, []byte(applied),
			metav1.PatchOptions{FieldManager: "m", Force: new(true)})
		check("applied", got, err, "Told", "Applied")
		for _, m := range got.ManagedFields {
			if owns := strings.Contains(m.FieldsV1.GetRawString(), `"f:status"`); m.Manager == "m" && owns == on {
				t.Errorf("%v: who applied owns %s", on, m.FieldsV1.GetRawString())
			}
		}
	}
}

// TestGateCRDObservedGenerationTracking: with the gate on or off, the observed generation is set by writes of the
// status alone.
func TestGateCRDObservedGenerationTracking(t *testing.T) {
	for _, on := range []bool{true, false} {
		f := startDynamic(t, gated(map[string]bool{"CRDObservedGenerationTracking": on}))
		crds := f.definitions.ApiextensionsV1().CustomResourceDefinitions()
		definition := widgetDefinition(t)
		definition.Status.ObservedGeneration = 7
		f.define(t, definition)
		check := func(what string, crd *apiextensionsv1.CustomResourceDefinition, err error, want int64) {
			t.Helper()
			if err != nil {
				t.Fatalf("%v: %s: %v", on, what, err)
			}
			if of := crd.Status.Conditions[0].ObservedGeneration; crd.Status.ObservedGeneration != want || of != want {
				t.Errorf("%v: %s: generation %d was seen, %d by a condition, want %d", on, what,
					crd.Status.ObservedGeneration, of, want)
			}
		}
		crd, err := crds.Get(t.Context(), definition.Name, metav1.GetOptions{})
		check("created", crd, err, 0)
		const seen = `[{"op":"add","path":"/status/observedGeneration","value":%[1]d},{"op":"add","path":"/status/conditions/0/observedGeneration","value":%[1]d}`
		crd, err = crds.Patch(t.Context(), definition.Name, types.JSONPatchType, fmt.Appendf(nil, seen+"]", 5),
			metav1.PatchOptions{}, "status")
		check("told", crd, err, 5)
		const another = `,{"op":"add","path":"/spec/names/categories","value":["all"]}]`
		crd, err = crds.Patch(t.Context(), definition.Name, types.JSONPatchType, fmt.Appendf(nil, seen+another, 6),
			metav1.PatchOptions{})
		check("changed", crd, err, 5)
	}
}
