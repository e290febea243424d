package quotas

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestStorageIsWhole: a quota tells bytes.
func TestStorageIsWhole(t *testing.T) {
	for _, c := range []struct{ request, granted, want string }{
		{"1500m", "", "2"},
		{"2Gi", "", "2Gi"},
		{"1500m", "1800m", "2"},
		{"1500m", "2100m", "3"},
		{"1Gi", "3Gi", "3Gi"},
		{"3Gi", "1Gi", "3Gi"},
	} {
		claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("fast"),
			Resources: corev1.VolumeResourceRequirements{Requests: list("storage", c.request)}}}
		if c.granted != "" {
			claim.Status.AllocatedResources = list("storage", c.granted)
		}
		usage := Usage(corev1.Resource("persistentvolumeclaims"), claim, nil, time.Now())
		for _, name := range []corev1.ResourceName{"requests.storage",
			"fast.storageclass.storage.k8s.io/requests.storage"} {
			if got := usage[name]; got.String() != c.want {
				t.Errorf("%s of %s, %s: got %s, want %s", name, c.request, c.granted, got.String(), c.want)
			}
		}
	}
}

// TestStorageClass: the class annotation of a claim takes precedence, even if it is empty.
func TestStorageClass(t *testing.T) {
	for annotation, want := range map[string]string{"-": "fast", "slow": "slow", "": ""} {
		claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("fast")}}
		if annotation != "-" {
			claim.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: annotation}
		}
		usage := Usage(corev1.Resource("persistentvolumeclaims"), claim, nil, time.Now())
		for _, class := range []string{"fast", "slow"} {
			if _,
				charged := usage[corev1.ResourceName(class+
				".storageclass.storage.k8s.io/persistentvolumeclaims")]; charged != (class == want) {
				t.Errorf("annotation %q: class %s is charged: %v", annotation, class, charged)
			}
		}
	}
}

// TestAttributesClasses: a claim is in the scope of each class that has to do with its volume.
func TestAttributesClasses(t *testing.T) {
	none, changing := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{
		Spec: corev1.PersistentVolumeClaimSpec{VolumeAttributesClassName: ptr.To("gold")},
		Status: corev1.PersistentVolumeClaimStatus{CurrentVolumeAttributesClassName: ptr.To("silver"),
			ModifyVolumeStatus: &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: "bronze"}},
	}
	left := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeAttributesClassName: ptr.To("")},
		Status: corev1.PersistentVolumeClaimStatus{CurrentVolumeAttributesClassName: ptr.To("silver")}}
	for _, c := range []struct {
		operator             corev1.ScopeSelectorOperator
		values               []string
		none, changing, left bool
	}{
		{corev1.ScopeSelectorOpExists, nil, false, true, true},
		{corev1.ScopeSelectorOpDoesNotExist, nil, true, false, false},
		{corev1.ScopeSelectorOpIn, []string{"gold"}, false, true, false},
		{corev1.ScopeSelectorOpIn, []string{"silver"}, false, true, true},
		{corev1.ScopeSelectorOpIn, []string{"bronze", "x"}, false, true, false},
		{corev1.ScopeSelectorOpNotIn, []string{"silver"}, true, true, false},
	} {
		s := &corev1.ScopedResourceSelectorRequirement{ScopeName: corev1.ResourceQuotaScopeVolumeAttributesClass,
			Operator: c.operator, Values: c.values}
		if a, b, d := Within(none, s), Within(changing, s), Within(left, s); a != c.none || b != c.changing ||
			d != c.left {
			t.Errorf("%s %v: %v, %v, %v", c.operator, c.values, a, b, d)
		}
	}
}

// owner is a cluster with one pod, and claims that were made for it.
type owner struct {
	there
	pod    *corev1.Pod
	claims []*resourcev1.ResourceClaim
}

func (o owner) Pod(string, string) *corev1.Pod                    { return o.pod }
func (o owner) ResourceClaims(string) []*resourcev1.ResourceClaim { return o.claims }

// TestWhichClaimIsExcused: the pod was charged for one claim only, and is not any more when it has ended.
func TestWhichClaimIsExcused(t *testing.T) {
	made := func(name string, at int64) *resourcev1.ResourceClaim {
		c := named(name, ownedBy("", claim(exactly("gpu", 2))))
		c.CreationTimestamp = metav1.Unix(at, 0)
		return c
	}
	asking := func(status string, phase corev1.PodPhase) *corev1.Pod {
		p := pod(list("example.com/gpu", "2"))
		p.Status.Phase = phase
		if status != "" {
			p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: status}
		}
		return p
	}
	old, young, stranger := made("b", 1), made("a", 2), ownedBy("2", made("0", 0))
	all := []*resourcev1.ResourceClaim{young, old, stranger}
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		claim  *resourcev1.ResourceClaim
		excuse bool
	}{
		"the one that the pod names":  {asking("a", ""), young, true},
		"not the one that it doesn't": {asking("a", ""), old, false},
		"the oldest":                  {asking("", ""), old, true},
		"not a younger one":           {asking("", ""), young, false},
		"the first by name":           {asking("", ""), made("a", 1), true},
		"not the second by name":      {asking("", ""), made("c", 1), false},
		"of a pod that has ended":     {asking("b", corev1.PodSucceeded), old, false},
	} {
		usage := Usage(resourcev1.Resource("resourceclaims"), c.claim, owner{pod: c.pod, claims: all}, time.Now())
		if _, charged := usage["requests.example.com/gpu"]; charged == c.excuse {
			t.Errorf("%s: %v", name, usage)
		}
	}
}

// TestExtended: of the names with a slash only those that aren't Kubernetes' own are extended resources, and those of
// device classes.
func TestExtended(t *testing.T) {
	for name, want := range map[corev1.ResourceName]bool{
		"example.com/gpu": true, "deviceclass.resource.kubernetes.io/gpu": true,
		"cpu": false, "kubernetes.io/batteries": false, "node.kubernetes.io/x": false,
		"requests.example.com/gpu": false,
	} {
		if Extended(name) != want {
			t.Errorf("%s: got %v", name, !want)
		}
	}
}
