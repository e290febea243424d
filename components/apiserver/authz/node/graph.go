package node

import (
	"sync"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
)

type kind uint8

const (
	secret kind = iota
	configMap
	claim // PersistentVolumeClaim
	volume
	attachment
	serviceAccount
	resourceClaim
	resourceSlice
	podRequest // PodCertificateRequest
	pod
)

// ref names an object that a node may need.
type ref struct {
	kind            kind
	namespace, name string
}

// graph knows which nodes need which objects: a node needs its pods, what those pods name, the volumes bound to their
// claims, and the secrets of those volumes. Edges are counted, so that each change costs as much as the pod it is
// about.
type graph struct {
	mu      sync.RWMutex
	needs   map[ref]map[string]int // object -> node -> number of reasons
	pods    map[ref]podEdges
	volumes map[string]volumeEdges  // by volume name
	bound   map[ref]map[string]bool // secret -> names of volumes that use it
}

type podEdges struct {
	node string
	refs []ref
}

type volumeEdges struct {
	claim   ref
	secrets []ref
}

func newGraph() *graph {
	return &graph{
		needs:   map[ref]map[string]int{},
		pods:    map[ref]podEdges{},
		volumes: map[string]volumeEdges{},
		bound:   map[ref]map[string]bool{},
	}
}

func (g *graph) add(r ref, node string) {
	nodes := g.needs[r]
	if nodes == nil {
		nodes = map[string]int{}
		g.needs[r] = nodes
	}
	nodes[node]++
}

func (g *graph) remove(r ref, node string) {
	nodes := g.needs[r]
	if nodes[node]--; nodes[node] <= 0 {
		delete(nodes, node)
	}
	if len(nodes) == 0 {
		delete(g.needs, r)
	}
}

// setPod replaces what is known of a pod; nil takes it out.
func (g *graph) setPod(namespace, name string, p *corev1.Pod) {
	key := ref{pod, namespace, name}
	var edges podEdges
	if p != nil && p.Spec.NodeName != "" {
		edges = podEdges{node: p.Spec.NodeName, refs: append(podRefs(p), key)}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.pods[key]
	for _, r := range edges.refs {
		g.add(r, edges.node)
	}
	for _, r := range old.refs {
		g.remove(r, old.node)
	}
	if edges.node == "" {
		delete(g.pods, key)
	} else {
		g.pods[key] = edges
	}
}

// setVolume replaces what is known of a PersistentVolume; nil takes it out.
func (g *graph) setVolume(name string, v *corev1.PersistentVolume) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.volumes[name].secrets {
		delete(g.bound[s], name)
		if len(g.bound[s]) == 0 {
			delete(g.bound, s)
		}
	}
	delete(g.volumes, name)
	if v == nil || v.Spec.ClaimRef == nil {
		return
	}
	edges := volumeEdges{
		claim:   ref{claim, v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name},
		secrets: volumeSecrets(v),
	}
	g.volumes[name] = edges
	for _, s := range edges.secrets {
		if g.bound[s] == nil {
			g.bound[s] = map[string]bool{}
		}
		g.bound[s][name] = true
	}
}

// move replaces the one node that needs r; "" means none.
func (g *graph) move(r ref, from, to string) {
	if from == to {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if to != "" {
		g.add(r, to)
	}
	if from != "" {
		g.remove(r, from)
	}
}

// reaches reports whether node needs r.
func (g *graph) reaches(node string, r ref) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.needs[r][node] > 0 {
		return true
	}
	switch r.kind {
	case volume:
		return g.boundTo(node, r.name)
	case secret:
		for name := range g.bound[r] {
			if g.boundTo(node, name) {
				return true
			}
		}
	}
	return false
}

func (g *graph) boundTo(node, volumeName string) bool {
	edges, ok := g.volumes[volumeName]
	return ok && g.needs[edges.claim][node] > 0
}

// PodChanged and the methods like it tell of a change; old is nil for a new object, new is nil for one deleted. They
// report whether it is one of what nodes need.
func (a *Authorizer) PodChanged(old, new *corev1.Pod) bool {
	if new == nil {
		a.graph.setPod(old.Namespace, old.Name, nil)
		return old.Spec.NodeName != ""
	}
	if old != nil && old.UID == new.UID && old.Spec.NodeName == new.Spec.NodeName &&
		len(old.Spec.EphemeralContainers) == len(new.Spec.EphemeralContainers) &&
		sameClaims(old.Status.ResourceClaimStatuses, new.Status.ResourceClaimStatuses) &&
		extendedClaim(old) == extendedClaim(new) {
		return false // what a bound pod names does not change otherwise
	}
	a.graph.setPod(new.Namespace, new.Name, new)
	return new.Spec.NodeName != ""
}

// VolumeChanged tells of a change of a PersistentVolume.
func (a *Authorizer) VolumeChanged(old, new *corev1.PersistentVolume) bool {
	if new == nil {
		a.graph.setVolume(old.Name, nil)
		return true
	}
	a.graph.setVolume(new.Name, new)
	return true
}

// AttachmentChanged tells of a change of a VolumeAttachment.
func (a *Authorizer) AttachmentChanged(old, new *storagev1.VolumeAttachment) bool {
	var name, from, to string
	if old != nil {
		name, from = old.Name, old.Spec.NodeName
	}
	if new != nil {
		name, to = new.Name, new.Spec.NodeName
	}
	a.graph.move(ref{kind: attachment, name: name}, from, to)
	return old == nil || new == nil || from != to
}

// SliceChanged tells of a change of a ResourceSlice.
func (a *Authorizer) SliceChanged(old, new *resourcev1.ResourceSlice) bool {
	var name, from, to string
	if old != nil {
		name, from = old.Name, deref(old.Spec.NodeName)
	}
	if new != nil {
		name, to = new.Name, deref(new.Spec.NodeName)
	}
	a.graph.move(ref{kind: resourceSlice, name: name}, from, to)
	return old == nil || new == nil || from != to
}

// PodRequestChanged tells of a change of a PodCertificateRequest.
func (a *Authorizer) PodRequestChanged(old, new *certificatesv1beta1.PodCertificateRequest) bool {
	var r ref
	var from, to string
	if old != nil {
		r, from = ref{podRequest, old.Namespace, old.Name}, string(old.Spec.NodeName)
	}
	if new != nil {
		r, to = ref{podRequest, new.Namespace, new.Name}, string(new.Spec.NodeName)
	}
	a.graph.move(r, from, to)
	return old == nil || new == nil || from != to
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func sameClaims(a, b []corev1.PodResourceClaimStatus) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || deref(a[i].ResourceClaimName) != deref(b[i].ResourceClaimName) {
			return false
		}
	}
	return true
}
