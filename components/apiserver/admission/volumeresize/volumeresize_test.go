package volumeresize

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// claim makes a bound claim of a class by the field, and by the annotation; "-" leaves that out.
func claim(size, class, annotation string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
	if class != "-" {
		c.Spec.StorageClassName = &class
	}
	if annotation != "-" {
		c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: annotation}
	}
	return c
}

func TestResize(t *testing.T) {
	store := &objectstest.Store{}
	for name, expands := range map[string]*bool{"grows": ptr.To(true), "fixed": ptr.To(false), "unsaid": nil} {
		store.Put(storagev1.Resource("storageclasses"),
			&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, AllowVolumeExpansion: expands})
	}
	pending := claim("1Gi", "grows", "-")
	pending.Status.Phase = corev1.ClaimPending
	const refused = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must " +
		"support resize"
	for _, c := range []struct {
		name    string
		old, is *corev1.PersistentVolumeClaim
		want    string
	}{
		{"grows", claim("1Gi", "grows", "-"), claim("2Gi", "grows", "-"), ""},
		{"class of the annotation", claim("1Gi", "fixed", "grows"), claim("2Gi", "fixed", "grows"), ""},
		{"empty annotation", claim("1Gi", "grows", ""), claim("2Gi", "grows", ""), refused},
		{"no class", claim("1Gi", "-", "-"), claim("2Gi", "-", "-"), refused},
		{"class that it didn't have", claim("1Gi", "-", "-"), claim("2Gi", "grows", "-"), refused},
		{"class that it had", claim("1Gi", "grows", "-"), claim("2Gi", "fixed", "-"), refused},
		{"fixed", claim("1Gi", "fixed", "-"), claim("2Gi", "fixed", "-"), refused},
		{"class that says nothing", claim("1Gi", "unsaid", "-"), claim("2Gi", "unsaid", "-"), refused},
		{"class that is gone", claim("1Gi", "gone", "-"), claim("2Gi", "gone", "-"), refused},
		{"same size", claim("1Gi", "fixed", "-"), claim("1Gi", "fixed", "-"), ""},
		{"not bound", pending, claim("2Gi", "grows", "-"), "Only bound persistent volume claims can be expanded"},
	} {
		err := New(store).Validate(context.Background(),
			admission.NewAttributesRecord(c.is, c.old, schema.GroupVersionKind{}, "ns", "c",
				corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "", admission.Update, nil, false,
				nil),
			nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}
