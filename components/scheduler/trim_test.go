package scheduler

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/snapshot"
)

// podToTrim has a container, a sidecar and a resize under way.
func podToTrim() *v1.Pod {
	pod := newPod("p", "1")
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	pod.Annotations = map[string]string{"a": "b"}
	c := &pod.Spec.Containers[0]
	c.Name, c.Env = "main", []v1.EnvVar{{Name: "A", Value: "B"}}
	c.Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	pod.Spec.InitContainers = []v1.Container{{Name: "side", Command: []string{"sh"},
		RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways), Resources: *c.Resources.DeepCopy()}}
	more := v1.ResourceList{v1.ResourceCPU: resource.MustParse("3")}
	pod.Status.PodIP, pod.Status.Phase = "10.0.0.1", v1.PodRunning
	pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", ContainerID: "docker://x",
		AllocatedResources: more, Resources: &v1.ResourceRequirements{Requests: more}}}
	return pod
}

func trimmed[T any](t *testing.T, c *Config, obj T) T {
	t.Helper()
	out, err := c.trim()(obj)
	if err != nil {
		t.Fatal(err)
	}
	return out.(T)
}

func TestTrimPod(t *testing.T) {
	placed := podToTrim()
	placed.Spec.NodeName = "a"
	want := snapshot.NewPod(placed.DeepCopy())
	if want.Requests.CPU != 4000 {
		t.Fatalf("the whole pod takes %dm", want.Requests.CPU)
	}
	got := snapshot.NewPod(trimmed(t, &Config{}, placed))
	if !reflect.DeepEqual(got.Requests, want.Requests) || !reflect.DeepEqual(got.Scored, want.Scored) ||
		!reflect.DeepEqual(got.Ports, want.Ports) {
		t.Errorf("takes %+v, whole %+v", got, want)
	}
	main, side := got.Obj.Spec.Containers[0], got.Obj.Spec.InitContainers[0]
	if main.Env != nil || side.Command != nil || got.Obj.Annotations != nil || got.Obj.ManagedFields != nil ||
		got.Obj.Status.PodIP != "" || got.Obj.Status.ContainerStatuses[0].ContainerID != "" {
		t.Errorf("keeps %+v", got.Obj)
	}
	waiting := trimmed(t, &Config{}, podToTrim())
	if want := podToTrim(); waiting.ManagedFields != nil || !reflect.DeepEqual(waiting.Spec, want.Spec) {
		t.Errorf("of a pod without a node: %+v", waiting)
	}
}

func TestTrimNode(t *testing.T) {
	whole := newNode("a", "4")
	whole.Annotations = map[string]string{"a": "b"}
	whole.Spec.Taints = []v1.Taint{{Key: "t", Effect: v1.TaintEffectNoSchedule}}
	whole.Status.NodeInfo.KernelVersion = "6.18"
	whole.Status.DeclaredFeatures = []string{"F"}
	whole.Status.Images = []v1.ContainerImage{{Names: []string{"example.com/a:1"}, SizeBytes: 7}}
	node := trimmed(t, &Config{}, whole.DeepCopy())
	if node.Status.NodeInfo.KernelVersion != "" || node.Annotations != nil {
		t.Errorf("keeps %+v", node)
	}
	var had, has snapshot.Node
	had.Describe(whole)
	has.Describe(node)
	if has.Allocatable.CPU != had.Allocatable.CPU || has.AllowedPods != had.AllowedPods ||
		!reflect.DeepEqual(has.Images, had.Images) || !reflect.DeepEqual(node.Labels, whole.Labels) ||
		!reflect.DeepEqual(node.Spec, whole.Spec) || !reflect.DeepEqual(node.Status.DeclaredFeatures, []string{"F"}) {
		t.Errorf("has %+v of %+v", node, whole)
	}
	for name, c := range map[string]*Config{
		"a user's plug-in": {plugins: map[string]PluginFactory{"Own": nil}},
		"an extender":      {Extenders: []configv1.Extender{{}}},
	} {
		if got := trimmed(t, c, whole.DeepCopy()); !reflect.DeepEqual(got, whole) {
			t.Errorf("%s does not get the whole node: %+v", name, got)
		}
	}
}
