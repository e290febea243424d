// Package compile translates pods, namespaces and NetworkPolicies into the rules of one node for packets
// (https://kubernetes.io/docs/concepts/services-networking/network-policies/). It does no I/O.
package compile

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/policy/model"
)

// Index keeps a model up to date, so that a change costs what it changes: a pod's is compared with the selectors that
// are in use, a namespace's or a policy's with the pods of the namespaces that it concerns. It belongs to one
// goroutine.
type Index struct {
	journal
	pods       map[string]map[string]*Pod // by namespace and name
	namespaces map[string]labels.Set
	policies   map[string]map[string]*policy // by namespace and name
	// owners are the pods by their addresses, the one that an address belongs to first.
	owners map[netip.Addr][]*Pod
	// selections of the sets in use, and how many policies use each set.
	selections map[model.SetID]*selection
	uses       map[model.SetID]int
	// starting are local pods that have no address yet.
	starting map[types.NamespacedName]*Pod
}

// New returns an index of nothing.
func New() *Index {
	return &Index{
		journal: journal{model.New(), model.NewChanges()},
		pods:    map[string]map[string]*Pod{}, namespaces: map[string]labels.Set{},
		policies: map[string]map[string]*policy{},
		owners:   map[netip.Addr][]*Pod{}, selections: map[model.SetID]*selection{}, uses: map[model.SetID]int{},
		starting: map[types.NamespacedName]*Pod{},
	}
}

// Compile returns the model of a state of the cluster. Policies that can't be read in part allow nothing by that part.
func Compile(
	policies []*networkingv1.NetworkPolicy, pods []Pod, namespaces map[string]labels.Set, podCIDRs []netip.Prefix,
) *model.Model {
	index := New()
	index.SetPodCIDRs(podCIDRs)
	for name, of := range namespaces {
		index.SetNamespace(name, of)
	}
	for _, pod := range pods {
		index.SetPod(pod)
	}
	for _, policy := range policies {
		_ = index.SetPolicy(policy)
	}
	return index.Current()
}

// Current returns the model, which is not to be changed and changes with the index.
func (x *Index) Current() *model.Model { return x.Model }

// Take returns what changed since it was called last.
func (x *Index) Take() *model.Changes {
	changes := x.changes
	x.changes = model.NewChanges()
	return changes
}

// SetPodCIDRs tells the ranges of this node's pods.
func (x *Index) SetPodCIDRs(ranges []netip.Prefix) {
	ranges = slices.SortedFunc(slices.Values(ranges), netip.Prefix.Compare)
	if ranges = slices.Compact(ranges); !slices.Equal(ranges, x.PodCIDRs) {
		x.PodCIDRs, x.changes.StartingDiffers = ranges, true
	}
}

// SetPod adds or changes a pod.
func (x *Index) SetPod(pod Pod) {
	before := x.pods[pod.Namespace][pod.Name]
	if before != nil && before.equal(&pod) {
		return
	}
	if x.pods[pod.Namespace] == nil {
		x.pods[pod.Namespace] = map[string]*Pod{}
	}
	x.pods[pod.Namespace][pod.Name] = &pod
	x.podChanged(before, &pod)
}

// DeletePod removes a pod, if there is one of the name.
func (x *Index) DeletePod(name types.NamespacedName) {
	before := x.pods[name.Namespace][name.Name]
	if before == nil {
		return
	}
	if delete(x.pods[name.Namespace], name.Name); len(x.pods[name.Namespace]) == 0 {
		delete(x.pods, name.Namespace)
	}
	x.podChanged(before, nil)
}

func (x *Index) podChanged(before, now *Pod) {
	var addrs []netip.Addr
	if before != nil {
		addrs = slices.Clone(before.Addrs)
		delete(x.starting, before.NamespacedName)
	}
	if now != nil {
		addrs = append(addrs, now.Addrs...)
		if now.Local && len(now.Addrs) == 0 {
			x.starting[now.NamespacedName] = now
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	addrs = slices.Compact(addrs)
	for _, addr := range addrs {
		x.updateOwner(addr, before, now)
	}
	x.group(addrs)
	x.updateStarting()
	if before != nil && before.Local && (now == nil || now.UID != before.UID) {
		x.noteEnd(before)
	}
}

// groupOf is the group of a pod, or the zero value where no policy selects it.
func (x *Index) groupOf(pod *Pod, direction model.Direction) model.Group {
	var names []string
	for name, p := range x.policies[pod.Namespace] {
		if _, applies := p.directions[direction]; applies && p.pods.Matches(pod.Labels) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return model.Group{}
	}
	slices.Sort(names)
	return model.Group{Direction: direction, Namespace: pod.Namespace, Policies: strings.Join(names, ",")}
}

// updateStarting finds out whether an isolated pod has no known address.
func (x *Index) updateStarting() {
	for _, direction := range model.Directions() {
		is := false
		for _, pod := range x.starting {
			is = is || x.groupOf(pod, direction) != model.Group{}
		}
		x.setStarting(direction, is)
	}
}

// SetNamespace adds or changes the labels of a namespace.
func (x *Index) SetNamespace(name string, now labels.Set) {
	if before, known := x.namespaces[name]; !known || !labels.Equals(before, now) {
		x.namespaceChanged(name, now, true)
	}
}

// DeleteNamespace removes a namespace.
func (x *Index) DeleteNamespace(name string) { x.namespaceChanged(name, nil, false) }

func (x *Index) namespaceChanged(name string, now labels.Set, exists bool) {
	before, known := x.namespaces[name]
	if exists {
		x.namespaces[name] = now
	} else {
		delete(x.namespaces, name)
	}
	for id, s := range x.selections {
		by := 1
		switch selected := s.selectsNamespace(name, now, exists); {
		case selected == s.selectsNamespace(name, before, known):
			continue
		case !selected:
			by = -1
		}
		for _, pod := range x.pods[name] {
			x.countPod(id, s, pod, by)
		}
	}
}

// SetPolicy adds or changes a policy. The error names its invalid parts, which allow nothing; a policy with an
// invalid pod selector is left out.
func (x *Index) SetPolicy(object *networkingv1.NetworkPolicy) error {
	now, err := readPolicy(object)
	x.policyChanged(types.NamespacedName{Namespace: object.Namespace, Name: object.Name}, now)
	return err
}

// DeletePolicy removes a policy.
func (x *Index) DeletePolicy(name types.NamespacedName) { x.policyChanged(name, nil) }

func (x *Index) policyChanged(name types.NamespacedName, now *policy) {
	before := x.policies[name.Namespace][name.Name]
	if before == nil && now == nil {
		return
	}
	had := len(x.policies) > 0 // any policy, of whatever namespace
	x.store(name, now)
	if now != nil {
		x.use(now)
	}
	if before != nil {
		x.release(before)
	}
	for _, direction := range model.Directions() {
		x.directionChanged(model.PolicyKey{Direction: direction, Namespace: name.Namespace, Name: name.Name},
			before, now)
	}
	if had != (len(x.policies) > 0) {
		for addr, owners := range x.owners {
			x.setLocal(addr, !had && owners[0].Local)
		}
	}
	if !samePods(before, now) {
		for _, pod := range x.pods[name.Namespace] {
			if pod.Local {
				x.group(pod.Addrs)
			}
		}
	}
	x.updateStarting()
}

func (x *Index) store(name types.NamespacedName, now *policy) {
	of := x.policies[name.Namespace]
	switch {
	case now == nil:
		if delete(of, name.Name); len(of) == 0 {
			delete(x.policies, name.Namespace)
		}
	case of == nil:
		x.policies[name.Namespace] = map[string]*policy{name.Name: now}
	default:
		of[name.Name] = now
	}
}

func (x *Index) directionChanged(key model.PolicyKey, before, now *policy) {
	var matches, old []model.Match
	var applies, applied bool
	if now != nil {
		matches, applies = now.directions[key.Direction]
	}
	if before != nil {
		old, applied = before.directions[key.Direction]
	}
	if applies != applied || !slices.EqualFunc(matches, old, equalMatches) {
		x.setPolicy(key, matches, applies)
	}
}

func equalMatches(a, b model.Match) bool {
	return a.Peer == b.Peer && a.Named == b.Named && a.Protocol == b.Protocol && slices.Equal(a.Ports, b.Ports)
}

// samePods tells whether two states of a policy isolate the same pods.
func samePods(a, b *policy) bool {
	if a == nil || b == nil || a.pods.String() != b.pods.String() || len(a.directions) != len(b.directions) {
		return false
	}
	for direction := range a.directions {
		if _, ok := b.directions[direction]; !ok {
			return false
		}
	}
	return true
}

// use makes the sets that a policy refers to.
func (x *Index) use(p *policy) {
	for id := range p.blocks {
		if x.uses[id]++; x.uses[id] == 1 {
			x.addSet(id)
			for element := range blockElements(id) {
				x.countElement(id, element, 1)
			}
		}
	}
	for id, s := range p.selections {
		if x.uses[id]++; x.uses[id] > 1 {
			continue
		}
		x.addSet(id)
		x.selections[id] = s
		namespaces := maps.Keys(x.pods)
		if s.namespace != "" {
			namespaces = slices.Values([]string{s.namespace})
		}
		for namespace := range namespaces {
			if of, known := x.namespaces[namespace]; !s.selectsNamespace(namespace, of, known) {
				continue
			}
			for _, pod := range x.pods[namespace] {
				x.countPod(id, s, pod, 1)
			}
		}
	}
}

// release removes the sets that no other policy refers to.
func (x *Index) release(p *policy) {
	for id := range p.blocks {
		x.unuse(id)
	}
	for id := range p.selections {
		x.unuse(id)
	}
}

func (x *Index) unuse(id model.SetID) {
	if x.uses[id]--; x.uses[id] == 0 {
		delete(x.uses, id)
		delete(x.selections, id)
		x.deleteSet(id)
	}
}
