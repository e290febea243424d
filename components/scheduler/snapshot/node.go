package snapshot

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Node is a node with the sums over the pods on it.
type Node struct {
	Obj   *v1.Node // nil while pods name a node that is not known yet
	Name  string
	Index int // in Snapshot.Nodes; -1 while Obj is nil

	Allocatable Resources
	AllowedPods int64

	Pods              []*Pod
	Requested, Scored Resources
	Ports             []Port
	// ClaimUses is how many claims the pods have; one that several pods use counts for each of them.
	ClaimUses int
	// Generation grows with every change.
	Generation int64
	// Images on the node by name, in bytes.
	Images map[string]int64
}

// Label returns the value of one label.
func (n *Node) Label(key string) (string, bool) {
	value, ok := n.Obj.Labels[key]
	return value, ok
}

// Clone returns a node whose pods can be changed without effect on n.
func (n *Node) Clone() *Node {
	c := &Node{}
	n.CloneInto(c)
	return c
}

// CloneInto makes c what Clone returns, in the memory of an earlier clone, which is lost.
func (n *Node) CloneInto(c *Node) {
	pods, ports := append(c.Pods[:0], n.Pods...), append(c.Ports[:0], n.Ports...)
	*c = *n
	c.Pods, c.Ports = pods, ports
	c.Requested = n.Requested.clone()
	c.Scored = n.Scored.clone()
}

// Add puts a pod on the node.
func (n *Node) Add(p *Pod) {
	n.Generation++
	n.Pods = append(n.Pods, p)
	n.Requested.add(&p.Requests, 1)
	n.Scored.add(&p.Scored, 1)
	n.Ports = append(n.Ports, p.Ports...)
	n.ClaimUses += len(p.Claims)
}

// Remove takes a pod off the node; false if it was not there.
func (n *Node) Remove(uid types.UID) bool {
	i := slices.IndexFunc(n.Pods, func(p *Pod) bool { return p.UID() == uid })
	if i < 0 {
		return false
	}
	n.Generation++
	p := n.Pods[i]
	last := len(n.Pods) - 1
	n.Pods[i] = n.Pods[last]
	n.Pods[last] = nil
	n.Pods = n.Pods[:last]
	n.Requested.add(&p.Requests, -1)
	n.Scored.add(&p.Scored, -1)
	n.ClaimUses -= len(p.Claims)
	for _, port := range p.Ports {
		if at := slices.Index(n.Ports, port); at >= 0 {
			n.Ports = slices.Delete(n.Ports, at, at+1)
		}
	}
	return true
}

// Describe copies the properties of the Node object.
func (n *Node) Describe(obj *v1.Node) {
	n.Generation++
	n.Obj = obj
	n.Allocatable = ResourcesOf(obj.Status.Allocatable)
	n.AllowedPods = obj.Status.Allocatable.Pods().Value()
	n.Images = make(map[string]int64, len(obj.Status.Images))
	for _, image := range obj.Status.Images {
		for _, name := range image.Names {
			n.Images[name] = image.SizeBytes
		}
	}
}

// sameShape tells whether an update leaves labels, taints and schedulability as they were.
func sameShape(old, now *v1.Node) bool {
	return old != nil && maps.Equal(old.Labels, now.Labels) && old.Spec.Unschedulable == now.Spec.Unschedulable &&
		slices.EqualFunc(old.Spec.Taints, now.Spec.Taints, func(a, b v1.Taint) bool {
			return a.MatchTaint(&b) &&
				a.Value == b.Value
		})
}
