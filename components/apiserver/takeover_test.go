package apiserver_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestApplyAfterClientSideApply: to take over fields of client-side apply changes their owner, and nothing else. Only
// kubectl's own manager writes the last-applied annotation again, and a Deployment's annotations count for its
// generation.
func TestApplyAfterClientSideApply(t *testing.T) {
	deployments := start(t).client(t).AppsV1().Deployments("default")
	const spec = `"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},` +
		`"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"500m"}},"ports":[{"containerPort":80}]}]}}}`
	const plain = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"default"},` + spec +
		`}`
	made, err := deployments.Patch(t.Context(), "d", types.ApplyPatchType, []byte(plain),
		metav1.PatchOptions{FieldManager: "seed"})
	if err != nil {
		t.Fatal(err)
	}
	made.ResourceVersion, made.UID, made.ManagedFields, made.Name = "", "", nil, "e"
	made.Annotations = map[string]string{
		corev1.LastAppliedConfigAnnotation: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{},"name":"e","namespace":"default"},` + spec + "}\n",
	}
	made, err = deployments.Create(t.Context(), made, metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"})
	if err != nil {
		t.Fatal(err)
	}
	wanted := []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"e","namespace":"default"},` +
		spec + `}`)
	other, err := deployments.Patch(t.Context(), "e", types.ApplyPatchType, wanted,
		metav1.PatchOptions{FieldManager: "other"})
	if err != nil || other.Generation != 1 || other.ResourceVersion == made.ResourceVersion ||
		len(other.ManagedFields) != 2 {
		t.Fatalf("by another manager: generation %d, %v", other.Generation, err)
	}
	kubectl, err := deployments.Patch(t.Context(), "e", types.ApplyPatchType, wanted,
		metav1.PatchOptions{FieldManager: "kubectl"})
	if err != nil {
		t.Fatal(err)
	}
	const name = corev1.LastAppliedConfigAnnotation
	rewritten := kubectl.Annotations[name] != other.Annotations[name]
	if rewritten != (kubectl.Generation != other.Generation) {
		t.Errorf("generation %d over %d, annotation rewritten: %v", kubectl.Generation, other.Generation, rewritten)
	}
}
