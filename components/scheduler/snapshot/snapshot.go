package snapshot

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Snapshot is the state of the cluster. It is not safe for concurrent use.
type Snapshot struct {
	nodes      map[string]*Node
	pods       map[types.UID]place
	classes    map[string]*Class
	spaces     map[string]map[*Class]struct{} // classes by namespace
	terms      map[*Class]struct{}            // classes with inter-pod terms
	images     map[string]int                 // on how many nodes each image is
	namespaces map[string]labels.Set

	order   []*Node
	stale   bool // order must be rebuilt
	columns map[string]*Column
	shape   uint64

	claimUsers map[types.NamespacedName]int
	assumed    int

	workloads
	volumes
	devices
}

type place struct {
	pod     *Pod
	node    *Node
	class   *Class
	assumed bool
}

// Class is a set of pods that are alike to selectors and affinity terms of others.
type Class struct {
	Namespace   string
	Labels      labels.Set
	Terminating bool
	Affinity    *Affinity
	// On holds their number on each node.
	On  map[*Node]int
	key string
}

// New returns an empty cluster.
func New() *Snapshot {
	return &Snapshot{
		nodes:      map[string]*Node{},
		pods:       map[types.UID]place{},
		classes:    map[string]*Class{},
		spaces:     map[string]map[*Class]struct{}{},
		terms:      map[*Class]struct{}{},
		images:     map[string]int{},
		namespaces: map[string]labels.Set{},
		columns:    map[string]*Column{},
		claimUsers: map[types.NamespacedName]int{},
		workloads:  newWorkloads(),
		volumes:    newVolumes(),
		devices:    newDevices(),
	}
}

// SetNode adds or updates a node.
func (s *Snapshot) SetNode(obj *v1.Node) {
	n := s.node(obj.Name)
	for image := range n.Images {
		s.forgetImage(image)
	}
	if n.Obj == nil {
		s.stale = true
	}
	if !sameShape(n.Obj, obj) {
		s.reshape()
	}
	n.Describe(obj)
	for image := range n.Images {
		s.images[image]++
	}
}

// RemoveNode forgets a node; pods that are still on it are kept until they go.
func (s *Snapshot) RemoveNode(name string) {
	n, ok := s.nodes[name]
	if !ok || n.Obj == nil {
		return
	}
	for image := range n.Images {
		s.forgetImage(image)
	}
	n.Obj, n.Images, n.Allocatable, n.AllowedPods, n.Index = nil, nil, Resources{}, 0, -1
	s.stale = true
	s.reshape()
	s.dropIfEmpty(n)
}

// SetPod puts a pod that has a node on it, or updates it there; it confirms an assumed pod.
func (s *Snapshot) SetPod(p *Pod) {
	s.RemovePod(p.UID())
	s.put(p, p.Obj.Spec.NodeName, false)
}

// Assume adds a pod to a node before its binding is written.
func (s *Snapshot) Assume(p *Pod, node string) {
	s.RemovePod(p.UID())
	s.put(p, node, true)
}

// Pod returns a pod that is on a node, or nil.
func (s *Snapshot) Pod(uid types.UID) *Pod { return s.pods[uid].pod }

// Forget takes back an assumed pod whose binding failed; false if it is confirmed, and stays, or unknown.
func (s *Snapshot) Forget(uid types.UID) bool { return s.pods[uid].assumed && s.RemovePod(uid) }

// RemovePod takes a pod off its node; false if it was on none.
func (s *Snapshot) RemovePod(uid types.UID) bool {
	at, ok := s.pods[uid]
	if !ok {
		return false
	}
	delete(s.pods, uid)
	if at.assumed {
		s.assumed--
	}
	at.node.Remove(uid)
	s.useClaims(at.pod, -1)
	if at.class.On[at.node]--; at.class.On[at.node] == 0 {
		delete(at.class.On, at.node)
	}
	if len(at.class.On) == 0 {
		delete(s.classes, at.class.key)
		delete(s.terms, at.class)
		delete(s.spaces[at.class.Namespace], at.class)
		if len(s.spaces[at.class.Namespace]) == 0 {
			delete(s.spaces, at.class.Namespace)
		}
	}
	s.dropIfEmpty(at.node)
	return true
}

// Sizes counts the nodes, the pods on them, and those of these whose binding is not confirmed yet.
func (s *Snapshot) Sizes() (nodes, pods, assumed int) { return len(s.Nodes()), len(s.pods), s.assumed }

// SetNamespace keeps the labels of a namespace, for namespace selectors.
func (s *Snapshot) SetNamespace(name string, set labels.Set) { s.namespaces[name] = set }

// RemoveNamespace forgets a namespace's labels.
func (s *Snapshot) RemoveNamespace(name string) { delete(s.namespaces, name) }

// NamespaceLabels returns the labels of a namespace.
func (s *Snapshot) NamespaceLabels(name string) labels.Set { return s.namespaces[name] }

// Nodes returns all known nodes; zones alternate, so that any stretch of them covers all zones. The caller must not
// change it, and it is valid until the next change.
func (s *Snapshot) Nodes() []*Node {
	if s.stale {
		s.order = interleave(s.nodes)
		s.stale = false
	}
	return s.order
}

// Node returns a known node or nil.
func (s *Snapshot) Node(name string) *Node {
	if n, ok := s.nodes[name]; ok && n.Obj != nil {
		return n
	}
	return nil
}

// Shape changes whenever a node comes, goes, or changes its labels, taints or schedulability.
func (s *Snapshot) Shape() uint64 { return s.shape }

// Classes calls visit for every class of pods on nodes.
func (s *Snapshot) Classes(visit func(*Class)) {
	for _, class := range s.classes {
		visit(class)
	}
}

// ClassesIn calls visit for every class of pods on nodes in a namespace.
func (s *Snapshot) ClassesIn(namespace string, visit func(*Class)) {
	for class := range s.spaces[namespace] {
		visit(class)
	}
}

// ClassesWithTerms calls visit for every class whose pods have inter-pod terms.
func (s *Snapshot) ClassesWithTerms(visit func(*Class)) {
	for class := range s.terms {
		visit(class)
	}
}

// ImageSpread returns on how many nodes an image is.
func (s *Snapshot) ImageSpread(image string) int { return s.images[image] }

func (s *Snapshot) put(p *Pod, node string, assumed bool) {
	n := s.node(node)
	n.Add(p)
	s.useClaims(p, 1)
	key := p.classKey()
	class, ok := s.classes[key]
	if !ok {
		class = &Class{
			Namespace: p.Obj.Namespace, Labels: p.Obj.Labels, Terminating: p.Terminating(),
			Affinity: &p.Affinity, On: map[*Node]int{}, key: key,
		}
		s.classes[key] = class
		if s.spaces[class.Namespace] == nil {
			s.spaces[class.Namespace] = map[*Class]struct{}{}
		}
		s.spaces[class.Namespace][class] = struct{}{}
		if !p.Affinity.Empty() {
			s.terms[class] = struct{}{}
		}
	}
	class.On[n]++
	if assumed {
		s.assumed++
	}
	s.pods[p.UID()] = place{pod: p, node: n, class: class, assumed: assumed}
}

func (s *Snapshot) node(name string) *Node {
	n, ok := s.nodes[name]
	if !ok {
		n = &Node{Name: name, Index: -1}
		s.nodes[name] = n
	}
	return n
}

func (s *Snapshot) dropIfEmpty(n *Node) {
	if n.Obj == nil && len(n.Pods) == 0 {
		delete(s.nodes, n.Name)
	}
}

func (s *Snapshot) forgetImage(image string) {
	if s.images[image]--; s.images[image] <= 0 {
		delete(s.images, image)
	}
}

func (s *Snapshot) reshape() {
	s.shape++
	clear(s.columns)
}
