package handlers

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/serial"
)

// podDoor is the way to pods, and a tracker for it.
func podDoor(t testing.TB) (*endpoint, *tracker) {
	t.Helper()
	scheme := serial.NewScheme()
	a := New(Config{Scheme: scheme, Codec: serial.NewCodec(scheme)})
	for _, kind := range kinds.Table(kinds.Deps{}) {
		if kind.Resource == "pods" {
			v := &kind.Versions[0]
			return &endpoint{kind: kind, version: v, strategy: &kind.Strategy, gvk: v.WithKind(kind.Name)}, a.tracker
		}
	}
	t.Fatal("no pods")
	return nil, nil
}

func trackedPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", Labels: map[string]string{"app": "x", "tier": "y"}, Finalizers: []string{"example.com/f"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "main", Image: "i", Args: []string{"serve"}, Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "A", Value: "2"}},
				Ports:     []corev1.ContainerPort{{ContainerPort: 80, Protocol: "TCP"}, {ContainerPort: 53, Protocol: "UDP"}},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("10m")}},
			}},
			Tolerations:  []corev1.Toleration{{Key: "k", Operator: "Exists"}},
			NodeSelector: map[string]string{"n": "1"},
		},
		Status: corev1.PodStatus{Phase: "Pending"},
	}
}

// TestTyperBooksAsTheWholeConverter: the short cuts change nothing in the managed fields of a history of writes.
func TestTyperBooksAsTheWholeConverter(t *testing.T) {
	d, tracker := podDoor(t)
	withoutReset := *d.strategy
	withoutReset.ResetFields = nil // so that one endpoint sees all kinds of changes
	d.strategy = &withoutReset
	history := []struct {
		manager string
		change  func(*corev1.Pod)
	}{
		{"creator", func(*corev1.Pod) {}},
		{"labeller", func(p *corev1.Pod) { p.Labels["more"] = "z"; delete(p.Labels, "tier") }},
		{"creator", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "j"; p.Spec.Tolerations = nil }},
		{"kubelet", func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "Ready", Status: "True"})
			p.Status.Phase = "Running"
		}},
		{"creator", func(*corev1.Pod) {}},
		{"kubelet", func(p *corev1.Pod) { p.Status.Conditions[0].Status = "False"; p.Finalizers = nil }},
	}
	c := newConverter(d)
	whole, err := managedfields.NewDefaultFieldManager(tracker.types, c, c, c, d.gvk, d.kind.Hub, "", filterOf(d))
	if err != nil {
		t.Fatal(err)
	}
	newShort := tracker.managers(d)
	live := d.kind.HubVersion().New()
	current := trackedPod()
	for i, write := range history {
		wanted := current.DeepCopy()
		write.change(wanted)
		short, err := newShort()
		if err != nil {
			t.Fatal(err)
		}
		from, to := apart(live, wanted.DeepCopy())
		a, err := short.Update(from, to, write.manager)
		if err != nil {
			t.Fatal(err)
		}
		tracked := wanted.DeepCopy()
		tracked.ManagedFields = a.(*corev1.Pod).ManagedFields
		short.close()
		b, err := whole.Update(live, wanted.DeepCopy(), write.manager)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(timeless(b.(*corev1.Pod)), timeless(tracked)); diff != "" {
			t.Errorf("write %d by %s: -whole converter +typer\n%s", i, write.manager, diff)
		}
		current = tracked
		live = current
	}
}

// TestConvertedDuplicates: who manages an object with the same finalizer twice can't be told when some of it is managed in another version,
// neither by structured merge itself nor here.
func TestConvertedDuplicates(t *testing.T) {
	tracker, endpoints := bookedDoors(t)
	d := endpoints["autoscaling/v2, Resource=horizontalpodautoscalers"]
	short, err := tracker.managers(d)()
	if err != nil {
		t.Fatal(err)
	}
	defer short.close()
	managers := map[string]*managedfields.FieldManager{"structured merge": referenceOf(t, tracker, d), "ours": short.FieldManager}
	for name, manager := range managers {
		for _, version := range []string{"autoscaling/v1", "autoscaling/v2"} {
			live := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "m", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: version, FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:maxReplicas":{}}}`),
			}}}}
			live.SetGroupVersionKind(d.gvk)
			wanted := live.DeepCopy()
			wanted.Finalizers = []string{"x/y", "x/y"}
			_, err := manager.Update(live, wanted, "n")
			if fails := version == "autoscaling/v1"; fails != (err != nil) {
				t.Errorf("%s, managed in %s: %v", name, version, err)
			}
		}
	}
}

// timeless leaves out when fields were booked, and with it the order of the books: the two sides may see different seconds.
func timeless(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	for i := range p.ManagedFields {
		p.ManagedFields[i].Time = nil
	}
	slices.SortFunc(p.ManagedFields, func(a, b metav1.ManagedFieldsEntry) int {
		return strings.Compare(a.Manager, b.Manager)
	})
	return p
}

func BenchmarkTrackCreate(b *testing.B) {
	d, tracker := podDoor(b)
	managers := tracker.managers(d)
	pod := trackedPod()
	pod.Spec.Containers[0].Env = pod.Spec.Containers[0].Env[:1]
	b.ReportAllocs()
	for b.Loop() {
		m, err := managers()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := m.Update(d.kind.HubVersion().New(), pod.DeepCopy(), "bench"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTrackStatus(b *testing.B) {
	d, tracker := podDoor(b)
	managers := tracker.managers(d)
	m, err := managers()
	if err != nil {
		b.Fatal(err)
	}
	live, err := m.Update(d.kind.HubVersion().New(), trackedPod(), "bench")
	if err != nil {
		b.Fatal(err)
	}
	next := live.(*corev1.Pod).DeepCopy()
	next.Status.Message = "changed"
	b.ReportAllocs()
	for b.Loop() {
		m, err := managers()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := m.Update(live, next.DeepCopy(), "kubelet"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestSameContent(t *testing.T) {
	a, b := trackedPod(), trackedPod()
	a.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	b.Spec.InitContainers = []corev1.Container{} // as good as none
	if !sameContent(a, b) {
		t.Error("pods that differ in nothing that counts are told apart")
	}
	for name, change := range map[string]func(*corev1.Pod){
		"metadata": func(p *corev1.Pod) { p.Labels["app"] = "other" },
		"spec":     func(p *corev1.Pod) { p.Spec.NodeName = "n" },
		"status":   func(p *corev1.Pod) { p.Status.Message = "m" },
	} {
		c := trackedPod()
		change(c)
		if sameContent(a, c) {
			t.Errorf("a change of the %s doesn't count", name)
		}
	}
}
