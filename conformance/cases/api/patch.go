package api

import (
	"context"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/conformance/suite"
)

func patchJSON(ctx context.Context, t *suite.T) {
	maps := t.Client.CoreV1().ConfigMaps(t.Namespace)
	_, err := maps.Create(ctx, configMap("one", nil), metav1.CreateOptions{})
	t.Must(err, "create")
	got, err := maps.Patch(ctx, "one", types.JSONPatchType, []byte(
		`[{"op":"test","path":"/data/key","value":"value"},{"op":"add","path":"/data/more","value":"x"},{"op":"remove","path":"/data/key"}]`,
	), metav1.PatchOptions{})
	t.Must(err, "patch")
	t.Expect(got.Data).To(Equal(map[string]string{"more": "x"}))

	_, err = maps.Patch(ctx, "one", types.JSONPatchType, []byte(
		`[{"op":"add","path":"/data/lost","value":"y"},{"op":"test","path":"/data/more","value":"other"}]`),
		metav1.PatchOptions{})
	t.Expect(apierrors.ReasonForError(err)).To(Equal(metav1.StatusReasonInvalid), "a failed test operation: %v", err)
	read, err := maps.Get(ctx, "one", metav1.GetOptions{})
	t.Must(err, "get")
	t.Expect(read.Data).To(Equal(map[string]string{"more": "x"}))
}

func patchMerge(ctx context.Context, t *suite.T) {
	maps := t.Client.CoreV1().ConfigMaps(t.Namespace)
	start := configMap("one", map[string]string{"a": "1", "b": "2"})
	start.Finalizers = nil
	_, err := maps.Create(ctx, start, metav1.CreateOptions{})
	t.Must(err, "create")
	got, err := maps.Patch(ctx, "one", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"a":null,"c":"3"}},"data":{"key":"new"}}`), metav1.PatchOptions{})
	t.Must(err, "patch")
	t.Expect(got.Labels).To(Equal(map[string]string{"b": "2", "c": "3"}))
	t.Expect(got.Data).To(Equal(map[string]string{"key": "new"}))
}

func patchStrategic(ctx context.Context, t *suite.T) {
	sets := t.Client.AppsV1().ReplicaSets(t.Namespace)
	set := t.ReplicaSet("one", 0)
	set.Spec.Template.Spec.Containers = append(set.Spec.Template.Spec.Containers,
		corev1.Container{Name: "second", Image: "second:1"})
	_, err := sets.Create(ctx, set, metav1.CreateOptions{})
	t.Must(err, "create")
	got, err := sets.Patch(ctx, "one", types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"second","image":"second:2"}]}}}}`),
		metav1.PatchOptions{})
	t.Must(err, "patch")
	containers := got.Spec.Template.Spec.Containers
	t.Expect(containers).To(HaveLen(2))
	for _, c := range containers {
		want := t.Image
		if c.Name == "second" {
			want = "second:2"
		}
		t.Expect(c.Image).To(Equal(want), "container %s", c.Name)
	}
	got, err = sets.Patch(ctx, "one", types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"second","$patch":"delete"}]}}}}`),
		metav1.PatchOptions{})
	t.Must(err, "patch with a delete directive")
	t.Expect(got.Spec.Template.Spec.Containers).To(HaveLen(1))
}

func applyAs(ctx context.Context, t *suite.T, manager, body string, force bool) (*corev1.ConfigMap, error) {
	return t.Client.CoreV1().ConfigMaps(t.Namespace).Patch(ctx, "one", types.ApplyPatchType,
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"},"data":`+body+`}`),
		metav1.PatchOptions{FieldManager: manager, Force: &force})
}

func applyCreatesAndMerges(ctx context.Context, t *suite.T) {
	_, err := applyAs(ctx, t, "alice", `{"a":"1","b":"2"}`, false)
	t.Must(err, "apply to nothing")
	_, err = applyAs(ctx, t, "bob", `{"c":"3"}`, false)
	t.Must(err, "apply by another manager")
	got, err := applyAs(ctx, t, "alice", `{"a":"one"}`, false)
	t.Must(err, "apply with one field less")
	t.Expect(got.Data).To(Equal(map[string]string{"a": "one", "c": "3"}))

	owned := map[string]string{}
	for _, entry := range got.ManagedFields {
		t.Expect(entry.Operation).To(Equal(metav1.ManagedFieldsOperationApply))
		owned[entry.Manager] = string(entry.FieldsV1.GetRawBytes())
	}
	t.Expect(owned).To(HaveLen(2))
	t.Expect(owned["alice"]).To(And(ContainSubstring(`"f:a"`), Not(ContainSubstring(`"f:b"`))))
	t.Expect(owned["bob"]).To(ContainSubstring(`"f:c"`))

	again, err := applyAs(ctx, t, "alice", `{"a":"one"}`, false)
	t.Must(err, "apply the same again")
	t.Expect(again.ResourceVersion).To(Equal(got.ResourceVersion), "an apply that changes nothing writes nothing")
}

func applyConflict(ctx context.Context, t *suite.T) {
	_, err := applyAs(ctx, t, "alice", `{"a":"1"}`, false)
	t.Must(err, "apply")
	_, err = applyAs(ctx, t, "bob", `{"a":"2"}`, false)
	t.Expect(apierrors.IsConflict(err)).To(BeTrue(), "want a Conflict, got %v", err)
	causes := err.(apierrors.APIStatus).Status().Details.Causes
	t.Expect(causes).To(ContainElement(And(
		HaveField("Type", metav1.CauseTypeFieldManagerConflict),
		HaveField("Field", ".data.a"),
		HaveField("Message", ContainSubstring(`"alice"`)))))
	got, err := applyAs(ctx, t, "bob", `{"a":"2"}`, true)
	t.Must(err, "forced apply")
	t.Expect(got.Data).To(HaveKeyWithValue("a", "2"))
	for _, entry := range got.ManagedFields {
		if entry.Manager == "alice" {
			t.Expect(strings.Contains(string(entry.FieldsV1.GetRawBytes()), `"f:a"`)).To(BeFalse(),
				"alice still owns what bob took by force")
		}
	}
}
