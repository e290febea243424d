package downward

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var pod = &v1.Pod{
	ObjectMeta: metav1.ObjectMeta{
		Name: "web", Namespace: "ns", UID: "uid",
		Labels:      map[string]string{"b": "2", "a": "1"},
		Annotations: map[string]string{"text": "two\nlines"},
	},
	Spec: v1.PodSpec{
		NodeName: "n1", ServiceAccountName: "robot",
		InitContainers: []v1.Container{{Name: "init",
			Resources: v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}}}},
		Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m"),
				v1.ResourceMemory: resource.MustParse("32Mi")},
			Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")},
		}}},
	},
	Status: v1.PodStatus{
		HostIP: "10.0.0.1", HostIPs: []v1.HostIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}},
		PodIP: "10.1.0.2", PodIPs: []v1.PodIP{{IP: "10.1.0.2"}, {IP: "fd01::2"}},
	},
}

func TestField(t *testing.T) {
	for path, want := range map[string]string{
		"metadata.name":                "web",
		"metadata.namespace":           "ns",
		"metadata.uid":                 "uid",
		"metadata.labels":              "a=\"1\"\nb=\"2\"",
		"metadata.annotations":         `text="two\nlines"`,
		"metadata.labels['b']":         "2",
		"metadata.labels['absent']":    "",
		"metadata.annotations['text']": "two\nlines",
		"spec.nodeName":                "n1",
		"spec.serviceAccountName":      "robot",
		"status.hostIP":                "10.0.0.1",
		"status.hostIPs":               "10.0.0.1,fd00::1",
		"status.podIP":                 "10.1.0.2",
		"status.podIPs":                "10.1.0.2,fd01::2",
	} {
		if got, err := Field(pod, path); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"spec.replicas", "metadata.name['x']", "", "status.podIP['x']"} {
		if got, err := Field(pod, path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %q, %v; want an error that names it", path, got, err)
		}
	}
}

func TestResource(t *testing.T) {
	node := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("8Gi")}
	for name, test := range map[string]struct {
		container, resource, divisor, want string
	}{
		"requests":              {"", "requests.memory", "", "33554432"},
		"limits":                {"", "limits.memory", "1Mi", "64"},
		"rounded up":            {"", "requests.cpu", "", "1"},
		"by a divisor":          {"", "requests.cpu", "1m", "250"},
		"no limit: the node's":  {"", "limits.cpu", "", "4"},
		"no request: 0":         {"", "requests.ephemeral-storage", "", "0"},
		"of an init container":  {"init", "limits.cpu", "", "1"},
		"memory of that has no": {"init", "limits.memory", "1Gi", "8"},
	} {
		ref := &v1.ResourceFieldSelector{ContainerName: test.container, Resource: test.resource}
		if test.divisor != "" {
			ref.Divisor = resource.MustParse(test.divisor)
		}
		if got, err := Resource(pod, "c", ref, node); err != nil || got != test.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, test.want)
		}
	}
	for _, ref := range []v1.ResourceFieldSelector{{ContainerName: "x", Resource: "limits.cpu"}, {Resource: "cpu"},
		{Resource: "most.cpu"}} {
		if got, err := Resource(pod, "c", &ref, node); err == nil {
			t.Errorf("%+v: %q without an error", ref, got)
		}
	}
}
