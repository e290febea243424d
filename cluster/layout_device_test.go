package cluster

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/devicedriver"
)

// A node counts once, whether its devices are those of a plug-in or are published in slices, and only while it exists.
func TestReadyDeviceNodes(t *testing.T) {
	node := func(name, devices string) v1.Node {
		n := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if devices != "" {
			n.Status.Allocatable = v1.ResourceList{devicedriver.ResourceName: resource.MustParse(devices)}
		}
		return n
	}
	slice := func(node string) resourcev1.ResourceSlice {
		if node == "" {
			return resourcev1.ResourceSlice{}
		}
		return resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{NodeName: &node}}
	}
	for name, c := range map[string]struct {
		nodes  []v1.Node
		slices []resourcev1.ResourceSlice
		want   int
	}{
		"none":         {nodes: []v1.Node{node("a", ""), node("b", "")}},
		"of a plug-in": {nodes: []v1.Node{node("a", "4"), node("b", "")}, want: 1},
		"in slices": {nodes: []v1.Node{node("a", ""), node("b", "")},
			slices: []resourcev1.ResourceSlice{slice("b")}, want: 1},
		"both": {nodes: []v1.Node{node("a", "4")},
			slices: []resourcev1.ResourceSlice{slice("a"), slice("a")}, want: 1},
		"one of each": {nodes: []v1.Node{node("a", "4"), node("b", "")},
			slices: []resourcev1.ResourceSlice{slice("b")}, want: 2},
		"of no node":         {nodes: []v1.Node{node("a", "")}, slices: []resourcev1.ResourceSlice{slice("")}},
		"of a node that was": {nodes: []v1.Node{node("a", "")}, slices: []resourcev1.ResourceSlice{slice("gone")}},
	} {
		if got := readyDeviceNodes(c.nodes, c.slices); got != c.want {
			t.Errorf("%s: %d nodes are ready, want %d", name, got, c.want)
		}
	}
}
