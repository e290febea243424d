package dynamicresources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/cycle"
	. "quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

const gpus v1.ResourceName = "example.com/gpu"

func container(name, amount string) v1.Container {
	c := v1.Container{Name: name}
	if amount != "" {
		c.Resources.Requests = v1.ResourceList{gpus: resource.MustParse(amount), "cpu": resource.MustParse("1")}
	}
	return c
}

func always(c v1.Container) v1.Container {
	c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
	return c
}

// TestRequestsFor: containers that run at once get devices of their own; init containers reuse those of later
// containers, and share what they need besides.
func TestRequestsFor(t *testing.T) {
	for name, c := range map[string]struct {
		inits, containers []v1.Container
		counts            map[string]int64    // by request
		uses              map[string][]string // requests by container
	}{
		"one": {nil, []v1.Container{container("a", "2")}, map[string]int64{"container-0-request-1": 2},
			map[string][]string{"a": {"container-0-request-1"}}},
		"two": {nil, []v1.Container{container("a", "1"), container("none", ""), container("b", "3")},
			map[string]int64{"container-0-request-1": 1, "container-2-request-1": 3},
			map[string][]string{"a": {"container-0-request-1"}, "b": {"container-2-request-1"}}},
		"init reuses": {[]v1.Container{container("i", "2")}, []v1.Container{container("a", "1"), container("b", "1")},
			map[string]int64{"container-1-request-1": 1, "container-2-request-1": 1},
			map[string][]string{"i": {"container-1-request-1", "container-2-request-1"}, "a": {"container-1-request-1"},
				"b": {"container-2-request-1"}}},
		"init needs more": {[]v1.Container{container("i", "2"), container("j", "4")}, []v1.Container{container("a", "1")},
			map[string]int64{"container-1-request-1": 3, "container-2-request-1": 1},
			map[string][]string{"i": {"container-2-request-1", "container-1-request-1"},
				"j": {"container-2-request-1", "container-1-request-1"}, "a": {"container-2-request-1"}}},
		"a sidecar is not free yet": {[]v1.Container{container("i", "1"), always(container("s", "1")), container("j", "1")},
			[]v1.Container{container("a", "")},
			map[string]int64{"container-1-request-1": 1, "container-2-request-1": 1},
			map[string][]string{"i": {"container-1-request-1"}, "s": {"container-1-request-1"},
				"j": {"container-2-request-1"}}},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{InitContainers: c.inits, Containers: c.containers}}
		requests, mappings := requestsFor(pod, []servedResource{{gpus, "class"}})
		counts := map[string]int64{}
		for _, r := range requests {
			counts[r.Name] = r.Exactly.Count
			if r.Exactly.DeviceClassName != "class" || r.Exactly.AllocationMode != resourcev1.DeviceAllocationModeExactCount {
				t.Errorf("%s: request %+v", name, r.Exactly)
			}
		}
		uses := map[string][]string{}
		for _, m := range mappings {
			uses[m.ContainerName] = append(uses[m.ContainerName], m.RequestName)
			if m.ResourceName != string(gpus) {
				t.Errorf("%s: mapping %+v", name, m)
			}
		}
		if diff := cmp.Diff(c.counts, counts); diff != "" {
			t.Errorf("%s: counts (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.uses, uses); diff != "" {
			t.Errorf("%s: mappings (-want +got):\n%s", name, diff)
		}
	}
}

// TestExtendedResource: where no device plug-in has the resource, devices of the class must do.
func TestExtendedResource(t *testing.T) {
	s := cluster(DeviceClass("gpu", Serves(string(gpus))), Node("b", "example.com/gpu=4"))
	for name, c := range map[string]struct {
		spec string
		want map[string]string
	}{
		"one":          {"example.com/gpu=1", without("!"+reasonCannotAllocate, "a", "b")},
		"three":        {"example.com/gpu=3", without("!"+reasonCannotAllocate, "b")},
		"none of them": {"cpu=1", map[string]string{}},
		"and one without a class": {"example.com/gpu=1 example.com/other=1", map[string]string{
			"a": "!" + reasonCannotFit, "b": "!" + reasonCannotFit, "c": "!" + reasonCannotFit}},
	} {
		if diff := cmp.Diff(c.want, Check(plugin(nil), Pod("p", c.spec, nil), s)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	off := func(f *Features) { f.ExtendedResource = false }
	if got := Check(plugin(off), Pod("p", "example.com/gpu=9", nil), s); len(got) != 0 {
		t.Errorf("without the feature: %v", got)
	}
}

// TestKeepsExtendedClaim: the claim has the requests of the chosen node, or there is none where a device plug-in does.
func TestKeepsExtendedClaim(t *testing.T) {
	s := cluster(DeviceClass("gpu", Serves(string(gpus))), Node("b", "example.com/gpu=4"))
	p := snapshot.NewPod(Pod("p", "example.com/gpu=1", nil))
	test, refusal := plugin(nil).Filter(p, s)
	if refusal != nil {
		t.Fatal(refusal)
	}
	for _, node := range []string{"a", "b"} {
		if refused := test.Check(s.Node(node)); refused != nil {
			t.Fatalf("%s: %v", node, refused)
		}
	}
	if kept := test.(cycle.Keeper).Keep(s.Node("b")); kept != nil {
		t.Errorf("a claim where the node has the resource: %+v", kept)
	}
	kept, ok := test.(cycle.Keeper).Keep(s.Node("a")).(*plan)
	if !ok || len(kept.claims) != 1 || kept.special != 0 || len(kept.claims[0].Spec.Devices.Requests) != 1 ||
		kept.allocations[0] == nil || len(kept.mappings) != 1 || kept.claims[0].GenerateName != "p-extended-resources-" {
		t.Errorf("kept %+v", kept)
	}
}

// TestStaleExtendedClaim: what an earlier attempt left is deleted before the next one.
func TestStaleExtendedClaim(t *testing.T) {
	stale := ResourceClaim("stale", Exactly("container-0-request-0", "gpu", 1))
	stale.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	stale.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "p", UID: types.UID("p"),
		Controller: ptr.To(true)}}
	s := cluster(DeviceClass("gpu", Serves(string(gpus))), stale)
	pod := Pod("p", "example.com/gpu=1", nil)
	if diff := cmp.Diff(everywhere("!"+reasonStaleExtended), Check(plugin(nil), pod, s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	d := attempt(plugin(nil), pod, s)
	if d.PostFilterResult.Message != messageDeleted || d.PostFilterResult.Writes == nil {
		t.Errorf("%+v", d.PostFilterResult)
	}
}
