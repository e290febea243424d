package limitranger

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func pod(requests, limits corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{
			{Name: "a", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}},
			{Name: "b", Resources: corev1.ResourceRequirements{Requests: requests.DeepCopy(),
				Limits: limits.DeepCopy()}},
		},
	}}
}

func run(t *testing.T, obj runtime.Object, resourceName, sub string, op admission.Operation,
	items ...corev1.LimitRangeItem) error {
	t.Helper()
	store := &objectstest.Store{}
	store.Put(corev1.Resource("limitranges"),
		&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "l"},
			Spec: corev1.LimitRangeSpec{Limits: items}})
	store.Put(corev1.Resource("limitranges"),
		&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "l"},
			Spec: corev1.LimitRangeSpec{
				Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: list("cpu", "1m")}}}})
	p := New(store)
	a := admission.NewAttributesRecord(obj, nil, schema.GroupVersionKind{}, "ns", "p",
		corev1.SchemeGroupVersion.WithResource(resourceName), sub, op, nil, false, nil)
	if err := p.Admit(context.Background(), a, nil); err != nil {
		t.Fatal(err)
	}
	return p.Validate(context.Background(), a, nil)
}

func TestDefaults(t *testing.T) {
	p := pod(list("memory", "1Gi"), nil)
	p.Spec.InitContainers = []corev1.Container{{Name: "i"}}
	item := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, DefaultRequest: list("cpu", "100m", "memory", "2Gi"),
		Default: list("cpu", "1")}
	if err := run(t, p, "pods", "", admission.Create, item); err != nil {
		t.Fatal(err)
	}
	a, i := p.Spec.Containers[0].Resources, p.Spec.InitContainers[0].Resources
	if a.Requests.Memory().String() != "1Gi" || a.Requests.Cpu().String() != "100m" || a.Limits.Cpu().String() != "1" ||
		i.Requests.Memory().String() != "2Gi" {
		t.Errorf("a %+v, i %+v", a, i)
	}
	want := "LimitRanger plugin set: cpu request for container a; cpu limit for container a; cpu request for container " +
		"b; cpu limit for container b; " +
		"cpu, memory request for init container i; cpu limit for init container i"
	if p.Annotations[annotation] != want {
		t.Errorf("annotation %q", p.Annotations[annotation])
	}
}

func TestBounds(t *testing.T) {
	container := func(item corev1.LimitRangeItem) corev1.LimitRangeItem {
		item.Type = corev1.LimitTypeContainer
		return item
	}
	claim := &corev1.PersistentVolumeClaim{
		Spec: corev1.PersistentVolumeClaimSpec{
			Resources: corev1.VolumeResourceRequirements{Requests: list("storage", "5Gi")}}}
	for _, tt := range []struct {
		name string
		obj  runtime.Object
		item corev1.LimitRangeItem
		want string
	}{
		{"within", pod(list("cpu", "1"), list("cpu", "2")),
			container(corev1.LimitRangeItem{Min: list("cpu", "1"), Max: list("cpu", "2"),
				MaxLimitRequestRatio: list("cpu", "2")}), ""},
		{"no request", pod(nil, nil), container(corev1.LimitRangeItem{Min: list("cpu", "1")}),
			"minimum cpu usage per Container is 1.  No request is specified"},
		{"small request", pod(list("cpu", "500m"), nil), container(corev1.LimitRangeItem{Min: list("cpu", "1")}),
			"minimum cpu usage per Container is 1, but request is 500m"},
		{"small limit", pod(list("cpu", "1"), list("cpu", "500m")),
			container(corev1.LimitRangeItem{Min: list("cpu", "1")}),
			"minimum cpu usage per Container is 1, but limit is 500m"},
		{"no limit", pod(list("cpu", "1"), nil), container(corev1.LimitRangeItem{Max: list("cpu", "1")}),
			"maximum cpu usage per Container is 1.  No limit is specified"},
		{"great limit", pod(list("cpu", "1"), list("cpu", "2")),
			container(corev1.LimitRangeItem{Max: list("cpu", "1")}),
			"maximum cpu usage per Container is 1, but limit is 2"},
		{"great ratio", pod(list("cpu", "1"), list("cpu", "3")),
			container(corev1.LimitRangeItem{MaxLimitRequestRatio: list("cpu", "2")}), "but provided ratio is 3.000000"},
		{"ratio that is kept exactly", pod(list("cpu", "10m"), list("cpu", "70m")),
			container(corev1.LimitRangeItem{MaxLimitRequestRatio: list("cpu", "7")}), ""},
		{"ratio that is kept exactly by thousandths", pod(list("cpu", "3m"), list("cpu", "9m")),
			container(corev1.LimitRangeItem{MaxLimitRequestRatio: list("cpu", "3")}), ""},
		{"ratio that is just too great", pod(list("cpu", "10m"), list("cpu", "71m")),
			container(corev1.LimitRangeItem{MaxLimitRequestRatio: list("cpu", "7")}),
			"cpu max limit to request ratio per Container is 7, but provided ratio is 7.100000"},
		{"ratio of what is too great for thousandths", pod(list("memory", "5Ei"), list("memory", "6Ei")),
			container(corev1.LimitRangeItem{MaxLimitRequestRatio: list("memory", "1200m")}), ""},
		{"no ratio", pod(nil, list("cpu", "3")),
			container(corev1.LimitRangeItem{MaxLimitRequestRatio: list("cpu", "2")}),
			"but no request is specified or request is 0"},
		{"sum of the pod", pod(list("cpu", "1"), list("cpu", "1")),
			corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: list("cpu", "1500m")},
			"maximum cpu usage per Pod is 1500m, but limit is 2"},
		{"claim within", claim, corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim,
			Min: list("storage", "1Gi"), Max: list("storage", "5Gi")}, ""},
		{"small claim", claim, corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim,
			Min: list("storage", "6Gi")}, "minimum storage usage per PersistentVolumeClaim is 6Gi, but request is 5Gi"},
		{"great claim", claim, corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim,
			Max: list("storage", "1Gi")}, "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 5Gi"},
		{"claims don't bind pods", pod(nil, nil),
			corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Min: list("storage", "6Gi")}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := run(t, tt.obj, "pods", "", admission.Create, tt.item)
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	tooBig := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: list("cpu", "1m")}
	for sub, refused := range map[string]bool{"": false, "status": false, "resize": true} {
		if err := run(t, pod(list("cpu", "1"), list("cpu", "1")), "pods", sub, admission.Update,
			tooBig); (err != nil) != refused {
			t.Errorf("update of %q: %v", sub, err)
		}
	}
}

// TestUpdates: objects that are being deleted are no longer checked; resized pods get the defaults, too.
func TestUpdates(t *testing.T) {
	claim := func(size string, going bool) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{
			Spec: corev1.PersistentVolumeClaimSpec{
				Resources: corev1.VolumeResourceRequirements{Requests: list("storage", size)}}}
		if going {
			c.DeletionTimestamp = &metav1.Time{}
		}
		return c
	}
	resized := func(going bool) *corev1.Pod {
		p := pod(nil, list("cpu", "2"))
		if going {
			p.DeletionTimestamp = &metav1.Time{}
		}
		return p
	}
	store := &objectstest.Store{}
	store.Put(corev1.Resource("limitranges"),
		&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "l"},
			Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
				{Type: corev1.LimitTypePersistentVolumeClaim, Max: list("storage", "1Gi")},
				{Type: corev1.LimitTypeContainer, DefaultRequest: list("memory", "1Gi"), Max: list("cpu", "1")},
			}}})
	p := New(store)
	for _, c := range []struct {
		name, resource, sub string
		obj, old            runtime.Object
		refused             bool
	}{
		{"claim", "persistentvolumeclaims", "", claim("5Gi", false), claim("5Gi", false), true},
		{"claim that goes", "persistentvolumeclaims", "", claim("5Gi", true), claim("5Gi", true), false},
		{"claim's status", "persistentvolumeclaims", "status", claim("5Gi", false), claim("5Gi", false), false},
		{"resize", "pods", "resize", resized(false), resized(false), true},
		{"resize of what goes", "pods", "resize", resized(true), resized(true), false},
	} {
		a := admission.NewAttributesRecord(c.obj, c.old, schema.GroupVersionKind{}, "ns", "p",
			corev1.SchemeGroupVersion.WithResource(c.resource), c.sub, admission.Update, nil, false, nil)
		if err := p.Admit(context.Background(), a, nil); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := p.Validate(context.Background(), a, nil); (err != nil) != c.refused {
			t.Errorf("%s: error %v", c.name, err)
		}
		if pod, ok := c.obj.(*corev1.Pod); ok &&
			(pod.Spec.Containers[0].Resources.Requests.Memory().String() == "1Gi") != c.refused {
			t.Errorf("%s: %+v", c.name, pod.Spec.Containers[0].Resources)
		}
	}
}
