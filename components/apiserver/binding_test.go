package apiserver_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDryRunOfBinding: a dry run binds nothing through either endpoint.
func TestDryRunOfBinding(t *testing.T) {
	client := start(t, withoutServiceAccounts).client(t).CoreV1()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := client.Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"},
		Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
	collection := func(dryRun ...string) error {
		return client.RESTClient().Post().Namespace("default").Resource("bindings").SpecificallyVersionedParams(
			&metav1.CreateOptions{DryRun: dryRun}, metav1.ParameterCodec,
			corev1.SchemeGroupVersion).Body(binding).Do(t.Context()).Error()
	}
	subresource := func(dryRun ...string) error {
		return client.RESTClient().Post().Namespace("default").Resource("pods").Name("p").SubResource(
			"binding").SpecificallyVersionedParams(&metav1.CreateOptions{DryRun: dryRun}, metav1.ParameterCodec,
			corev1.SchemeGroupVersion).Body(binding).Do(t.Context()).Error()
	}
	for _, step := range []struct {
		do     func(dryRun ...string) error
		dryRun []string
		want   string
	}{{collection, []string{metav1.DryRunAll}, ""}, {subresource, []string{metav1.DryRunAll}, ""},
		{collection, nil, "n"}} {
		if err := step.do(step.dryRun...); err != nil {
			t.Fatal(err)
		}
		got, err := client.Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
		if err != nil || got.Spec.NodeName != step.want {
			t.Errorf("the pod is on %q, %v; want %q", got.Spec.NodeName, err, step.want)
		}
	}
}
