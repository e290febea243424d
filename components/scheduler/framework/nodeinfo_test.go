package framework

import (
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"quintet.dev/quintet/components/scheduler/snapshot"
)

func podOn(node, name string, change func(*v1.PodSpec)) *snapshot.Pod {
	spec := v1.PodSpec{NodeName: node, Containers: []v1.Container{{Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}}}}}
	if change != nil {
		change(&spec)
	}
	return snapshot.NewPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec: spec})
}

func withClaim(claim string) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) {
		s.Volumes = append(s.Volumes, v1.Volume{VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
	}
}

func terms() []v1.PodAffinityTerm {
	return []v1.PodAffinityTerm{{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{}}}
}

func newTestLister() *lister {
	s := snapshot.New()
	for _, name := range []string{"a", "b"} {
		s.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("4"), v1.ResourcePods: resource.MustParse("110")}}})
	}
	s.SetPod(podOn("a", "plain", withClaim("shared")))
	s.SetPod(podOn("a", "attracted", func(spec *v1.PodSpec) {
		withClaim("shared")(spec)
		spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms()}}
	}))
	s.SetPod(podOn("b", "repelled", func(spec *v1.PodSpec) {
		withClaim("own")(spec)
		spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: terms()}}
	}))
	return &lister{snapshot: s}
}

func namesOf(infos []fwk.NodeInfo) (names []string) {
	for _, info := range infos {
		names = append(names, info.Node().Name)
	}
	slices.Sort(names)
	return names
}

// TestLister: a plug-in finds the nodes of the snapshot, all of them or those whose pods have terms, and who uses a
// claim.
func TestLister(t *testing.T) {
	l := newTestLister()
	for name, c := range map[string]struct {
		list func() ([]fwk.NodeInfo, error)
		want []string
	}{
		"all":           {l.List, []string{"a", "b"}},
		"affinity":      {l.HavePodsWithAffinityList, []string{"a", "b"}},
		"anti-affinity": {l.HavePodsWithRequiredAntiAffinityList, []string{"b"}},
	} {
		if infos, err := c.list(); err != nil || !slices.Equal(namesOf(infos), c.want) {
			t.Errorf("%s: got %v, %v; want %v", name, namesOf(infos), err, c.want)
		}
	}
	if info, err := l.Get("a"); err != nil || info.Node().Name != "a" {
		t.Errorf("a: %v, %v", info, err)
	}
	if info, err := l.Get("c"); err == nil {
		t.Errorf("c: %v", info)
	}
	for claim, want := range map[string]bool{"ns/shared": true, "ns/own": true, "other/own": false, "ns/none": false} {
		if got := l.IsPVCUsedByPods(claim); got != want {
			t.Errorf("%s is used: %t", claim, got)
		}
	}
	s := statuses{byNode: map[string]*fwk.Status{"a": fwk.NewStatus(fwk.Unschedulable)},
		absent: fwk.NewStatus(fwk.UnschedulableAndUnresolvable)}
	for code, want := range map[fwk.Code][]string{fwk.Unschedulable: {"a"}, fwk.UnschedulableAndUnresolvable: {"b"},
		fwk.Success: nil} {
		if infos, err := s.NodesForStatusCode(l, code); err != nil || !slices.Equal(namesOf(infos), want) {
			t.Errorf("%v: got %v, %v; want %v", code, namesOf(infos), err, want)
		}
	}
}

// TestNodeInfo: what a plug-in reads of a node is what its pods add up to.
func TestNodeInfo(t *testing.T) {
	info, err := newTestLister().Get("a")
	if err != nil {
		t.Fatal(err)
	}
	if got := info.GetRequested().GetMilliCPU(); got != 200 {
		t.Errorf("requested: %d", got)
	}
	if r := info.GetAllocatable(); r.GetMilliCPU() != 4000 || r.GetAllowedPodNumber() != 110 {
		t.Errorf("allocatable: %d of CPU, %d pods", r.GetMilliCPU(), r.GetAllowedPodNumber())
	}
	if got, want := info.GetPVCRefCounts(), map[string]int{"ns/shared": 2}; !maps.Equal(got, want) {
		t.Errorf("claims: %v", got)
	}
	if all, some := info.GetPods(), info.GetPodsWithAffinity(); len(all) != 2 || len(some) != 1 ||
		some[0].GetPod().Name != "attracted" || len(some[0].GetRequiredAffinityTerms()) != 1 ||
		len(some[0].GetRequiredAntiAffinityTerms()) != 0 {
		t.Errorf("pods: %v, with affinity %v", all, some)
	}
}

// TestCopiesOfNodes: a plug-in that tries something on a copy changes nothing for others.
func TestCopiesOfNodes(t *testing.T) {
	l := newTestLister()
	info, err := l.Get("a")
	if err != nil {
		t.Fatal(err)
	}
	tried := info.Snapshot()
	tried.AddPodInfo(podInfo{podOn("a", "tried", nil)})
	if err := tried.RemovePod(klog.Background(), podOn("a", "plain", nil).Obj); err != nil {
		t.Fatal(err)
	}
	if err := tried.RemovePod(klog.Background(), podOn("a", "repelled", nil).Obj); err == nil {
		t.Error("a pod of another node was removed")
	}
	namesOn := func(info fwk.NodeInfo) (names []string) {
		for _, p := range info.GetPods() {
			names = append(names, p.GetPod().Name)
		}
		slices.Sort(names)
		return names
	}
	if got, want := namesOn(tried), []string{"attracted", "tried"}; !slices.Equal(got, want) {
		t.Errorf("on the copy: %v, want %v", got, want)
	}
	if got, want := namesOn(info), []string{"attracted", "plain"}; !slices.Equal(got, want) {
		t.Errorf("on the node: %v, want %v", got, want)
	}
	if own := nodeOf(tried); own.Name != "a" || len(own.Pods) != 2 {
		t.Errorf("the node of the copy: %+v", own)
	}
}

// TestSetMaxResource raises what is lower, and leaves the map of the node alone.
func TestSetMaxResource(t *testing.T) {
	const gpu, tpu = v1.ResourceName("example.com/gpu"), v1.ResourceName("example.com/tpu")
	shared := map[v1.ResourceName]int64{gpu: 2}
	r := &resources{Resources: snapshot.Resources{CPU: 500, Memory: 10, Scalar: shared}}
	r.SetMaxResource(v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m"),
		v1.ResourceMemory: resource.MustParse("20"), gpu: resource.MustParse("1"), tpu: resource.MustParse("3")})
	if r.GetMilliCPU() != 500 || r.GetMemory() != 20 ||
		!maps.Equal(r.GetScalarResources(), map[v1.ResourceName]int64{gpu: 2, tpu: 3}) {
		t.Errorf("got %+v", r)
	}
	if len(shared) != 1 {
		t.Errorf("the node's own resources are %v now", shared)
	}
}

type number int

func (n number) Clone() fwk.StateData { return n + 1 }

// TestState: a copy has copies of the values, made as they say, and is independent.
func TestState(t *testing.T) {
	s := &State{}
	s.Write("kept", number(1))
	s.Write("gone", number(1))
	s.Delete("gone")
	s.SetSkipFilterPlugins(skipping(nil, "Mine"))
	c := s.Clone()
	s.Write("later", number(1))
	if v, err := c.Read("kept"); err != nil || v != number(2) {
		t.Errorf("kept: %v, %v", v, err)
	}
	for _, key := range []fwk.StateKey{"gone", "later"} {
		if v, err := c.Read(key); err != fwk.ErrNotFound {
			t.Errorf("%s: %v, %v", key, v, err)
		}
	}
	if !c.GetSkipFilterPlugins().Has("Mine") || c.GetSkipScorePlugins().Has("Mine") {
		t.Errorf("skipped: %v, %v", c.GetSkipFilterPlugins(), c.GetSkipScorePlugins())
	}
}
