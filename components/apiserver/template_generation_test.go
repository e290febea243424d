package apiserver_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestTemplateGeneration: an annotation that stands for a number is read as one, and an invalid one is reported by each
// endpoint.
func TestTemplateGeneration(t *testing.T) {
	sets := start(t).client(t).AppsV1().DaemonSets("default")
	labels := map[string]string{"a": "b"}
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "d"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			}},
	}
	made, err := sets.Create(t.Context(), set, metav1.CreateOptions{})
	if err != nil || made.Annotations[appsv1.DeprecatedTemplateGeneration] != "1" {
		t.Fatalf("made with %v, %v", made.Annotations, err)
	}
	with := func(d *appsv1.DaemonSet, value string) *appsv1.DaemonSet {
		d = d.DeepCopy()
		d.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: value}
		return d
	}
	if got, err := sets.Update(t.Context(), with(made, "+7"), metav1.UpdateOptions{}); err != nil ||
		got.Annotations[appsv1.DeprecatedTemplateGeneration] != "1" {
		t.Errorf("a number that differs: %v, %v", got.Annotations, err)
	}
	patch := []byte(`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"d","annotations":{"` +
		appsv1.DeprecatedTemplateGeneration + `":"x"}}}`)
	const why = `strconv.ParseInt: parsing "x": invalid syntax`
	for name, c := range map[string]struct {
		do   func() error
		code int
		want string
	}{
		"create": {func() error {
			_, err := sets.Create(t.Context(), with(set, "x"), metav1.CreateOptions{})
			return err
		}, http.StatusBadRequest, `DaemonSet in version "v1" cannot be handled as a DaemonSet: ` + why},
		"update": {func() error {
			_, err := sets.Update(t.Context(), with(made, "x"), metav1.UpdateOptions{})
			return err
		}, http.StatusBadRequest, `DaemonSet in version "v1" cannot be handled as a DaemonSet: ` + why},
		"merge": {func() error {
			_, err := sets.Patch(t.Context(), "d", types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		}, http.StatusUnprocessableEntity, "patch: Invalid value: "},
		"strategic": {func() error {
			_, err := sets.Patch(t.Context(), "d", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		}, http.StatusInternalServerError, why},
		"apply": {func() error {
			_, err := sets.Patch(t.Context(), "d", types.ApplyPatchType, patch,
				metav1.PatchOptions{FieldManager: "m", Force: new(true)})
			return err
		}, http.StatusInternalServerError, "failed to convert to unversioned (/d; apps/v1, Kind=DaemonSet): " + why},
		"apply, whole": {func() error {
			whole := bytes.Replace(patch, []byte(`"name":"d"`), []byte(`"name":"d","namespace":"default"`), 1)
			_, err := sets.Patch(t.Context(), "d", types.ApplyPatchType, whole,
				metav1.PatchOptions{FieldManager: "m", Force: new(true)})
			return err
		}, http.StatusInternalServerError,
			"failed to convert to unversioned (default/d; apps/v1, Kind=DaemonSet): " + why},
	} {
		err := c.do()
		var status apierrors.APIStatus
		if s, ok := err.(apierrors.APIStatus); ok {
			status = s
		}
		if status == nil || status.Status().Code != int32(c.code) || !strings.Contains(err.Error(), c.want) ||
			!strings.HasSuffix(err.Error(), why) {
			t.Errorf("%s: %v, want %d %s", name, err, c.code, c.want)
		}
	}
}
