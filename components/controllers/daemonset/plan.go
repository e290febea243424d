package daemonset

import (
	"cmp"
	"slices"
	"time"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/controllers/pods"
)

// burst is how many pods one reconciliation creates or deletes at most.
const burst = 250

// observed is all that a decision depends on.
type observed struct {
	set   *apps.DaemonSet
	nodes []*v1.Node
	pods  []*v1.Pod // those the set controls
	// hash marks pods of the current template.
	hash string
	// retries are the nodes whose pods failed lately.
	retries         map[string]retry
	expectationsMet bool
	now             time.Time
}

// fit tells whether a pod of the set should be started on a node, and whether one that is there may stay.
type fit struct{ run, stay bool }

// step is one decision.
type step struct {
	observed
	fits map[string]fit // by node
	// unavailable and surge are how many nodes may be without a pod, or with two, during an update.
	unavailable, surge int
}

// plan is what to do.
type plan struct {
	create []string // nodes that get a pod
	delete []*v1.Pod
	// ended are those among delete that ended by themselves, which is worth telling.
	ended []*v1.Pod
	// retries are nodes whose pods failed, to be known in the next decisions.
	retries map[string]retry
	status  apps.DaemonSetStatus
	again   time.Duration
}

func (p *plan) wake(after time.Duration) {
	if p.again == 0 || after < p.again {
		p.again = after
	}
}

func decide(observed observed) plan {
	o := &step{observed: observed, fits: map[string]fit{}}
	suits := suitability(o.set)
	for _, node := range o.nodes {
		o.fits[node.Name] = suits(node)
	}
	o.unavailable, o.surge = o.bounds()
	byNode := map[string][]*v1.Pod{}
	for _, pod := range o.pods {
		if node := target(pod); node != "" {
			byNode[node] = append(byNode[node], pod)
		}
	}
	var p plan
	for _, node := range o.nodes {
		o.place(&p, node, byNode[node.Name])
	}
	for name, stray := range byNode { // pods that wait for a node that is gone
		if _, known := o.fits[name]; !known {
			p.delete = append(p.delete,
				pods.Filter(stray, func(pod *v1.Pod) bool {
					return pod.Spec.NodeName == "" &&
						pod.DeletionTimestamp == nil
				})...)
		}
	}
	if o.set.Spec.UpdateStrategy.Type != apps.OnDeleteDaemonSetStrategyType && len(p.create) == 0 &&
		len(p.delete) == 0 {
		o.roll(&p, byNode)
	}
	p.status = o.status(&p, byNode)
	if !o.expectationsMet || o.set.DeletionTimestamp != nil {
		p.create, p.delete, p.ended, p.retries = nil, nil, nil, nil
	}
	p.create = p.create[:min(len(p.create), burst)]
	p.delete = p.delete[:min(len(p.delete), burst)]
	return p
}

// target is the node of a pod: where it runs or, before it is scheduled, the only one it may go to.
func target(pod *v1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil ||
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == "metadata.name" && field.Operator == v1.NodeSelectorOpIn && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// place decides about one node, except for updates.
func (o *step) place(p *plan, node *v1.Node, here []*v1.Pod) {
	switch fit := o.fits[node.Name]; {
	case !fit.stay:
		p.delete = append(p.delete,
			pods.Filter(here, func(pod *v1.Pod) bool { return pod.DeletionTimestamp == nil })...)
	case len(here) == 0:
		if fit.run {
			p.create = append(p.create, node.Name)
		}
	default:
		o.tidy(p, node.Name, here)
	}
}

// tidy removes ended pods, which are replaced once they are gone, and pods too many. One that failed waits if others
// failed on the node before.
func (o *step) tidy(p *plan, node string, here []*v1.Pod) {
	var live []*v1.Pod
	for _, pod := range here {
		switch {
		case pod.DeletionTimestamp != nil:
		case pods.Ended(pod):
			if pod.Status.Phase == v1.PodFailed && o.rests(p, node) {
				continue
			}
			p.delete = append(p.delete, pod)
			p.ended = append(p.ended, pod)
		default:
			live = append(live, pod)
		}
	}
	slices.SortStableFunc(live, olderFirst)
	seen := map[bool]bool{}
	for i, pod := range live {
		current := o.current(pod)
		extra := i > 0 && (o.surge == 0 || seen[current])
		if extra {
			p.delete = append(p.delete, pod)
		}
		seen[current] = true
	}
}

func olderFirst(a, b *v1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// boundFirst puts the pod first by which a node counts: the oldest of those that are bound.
func boundFirst(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(count(a.Spec.NodeName == ""), count(b.Spec.NodeName == "")), olderFirst(a, b))
}

func (o *step) current(pod *v1.Pod) bool {
	return pod.Labels[apps.DefaultDaemonSetUniqueLabelKey] == o.hash
}

// suitability returns a function that tells whether the set's pods should run on a node. It evaluates the template
// once.
func suitability(set *apps.DaemonSet) func(*v1.Node) fit {
	spec := set.Spec.Template.Spec // of which only what decides is read
	pod := &v1.Pod{Spec: v1.PodSpec{NodeSelector: spec.NodeSelector, Affinity: spec.Affinity,
		HostNetwork: spec.HostNetwork,
		Tolerations: slices.Clone(spec.Tolerations)}}
	tolerateNodes(&pod.Spec)
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	return func(node *v1.Node) fit {
		if spec.NodeName != "" && spec.NodeName != node.Name {
			return fit{}
		}
		if match, err := required.Match(node); err != nil || !match {
			return fit{}
		}
		untolerated := func(effects ...v1.TaintEffect) bool {
			_, found := corehelpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations,
				func(t *v1.Taint) bool { return slices.Contains(effects, t.Effect) }, true)
			return found
		}
		return fit{
			run:  !untolerated(v1.TaintEffectNoExecute, v1.TaintEffectNoSchedule),
			stay: !untolerated(v1.TaintEffectNoExecute),
		}
	}
}

// bounds are the set's unavailable and surge, percentages of the nodes that want a pod rounded up. They are the same
// for all nodes of a decision, and cost a walk over them.
func (o *step) bounds() (unavailable, surge int) {
	rolling := o.set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil {
		return 1, 0
	}
	desired := 0
	for _, node := range o.nodes {
		if o.fits[node.Name].run {
			desired++
		}
	}
	scaled := func(value *intstr.IntOrString) int {
		if value == nil {
			return 0
		}
		n, err := intstr.GetScaledValueFromIntOrPercent(value, desired, true)
		if err != nil {
			return 0
		}
		return n
	}
	unavailable, surge = scaled(rolling.MaxUnavailable), scaled(rolling.MaxSurge)
	if unavailable == 0 && surge == 0 {
		unavailable = 1
	}
	return unavailable, surge
}

// roll replaces pods of old templates as fast as the bounds allow.
func (o *step) roll(p *plan, byNode map[string][]*v1.Pod) {
	unavailable, surge := o.unavailable, o.surge
	var waiting []*v1.Pod // old pods that serve
	var surgeable []string
	for _, node := range o.nodes {
		if !o.fits[node.Name].run {
			continue
		}
		old, next := o.pair(byNode[node.Name])
		nextServes := next != nil && o.available(next)
		switch {
		case old == nil && !nextServes:
			unavailable--
		case old == nil:
		case old.DeletionTimestamp != nil:
			if !nextServes {
				unavailable--
			}
		case surge > 0 && next != nil:
			if nextServes {
				p.delete = append(p.delete, old)
			}
			surge--
		case surge > 0:
			if !o.available(old) { // nothing is lost if it goes at once
				p.delete = append(p.delete, old)
				continue
			}
			surgeable = append(surgeable, node.Name)
		case !o.available(old):
			p.delete = append(p.delete, old)
			unavailable--
		default:
			waiting = append(waiting, old)
		}
	}
	p.create = append(p.create, surgeable[:max(min(surge, len(surgeable)), 0)]...)
	p.delete = append(p.delete, waiting[:max(min(unavailable, len(waiting)), 0)]...)
}

// pair returns the pod of an old template and that of the current one.
func (o *step) pair(here []*v1.Pod) (old, next *v1.Pod) {
	for _, pod := range here {
		switch {
		case pods.Ended(pod):
		case o.current(pod):
			if pod.DeletionTimestamp == nil {
				next = pod
			}
		case old == nil || pod.DeletionTimestamp == nil:
			old = pod
		}
	}
	return old, next
}

func (o *step) available(pod *v1.Pod) bool {
	available, _ := pods.Available(pod, o.set.Spec.MinReadySeconds, o.now)
	return available && pod.DeletionTimestamp == nil
}

func (o *step) status(p *plan, byNode map[string][]*v1.Pod) apps.DaemonSetStatus {
	next := apps.DaemonSetStatus{
		ObservedGeneration: o.set.Generation,
		CollisionCount:     o.set.Status.CollisionCount,
		Conditions:         o.set.Status.Conditions,
	}
	for _, node := range o.nodes {
		here := pods.Filter(byNode[node.Name], func(pod *v1.Pod) bool { return !pods.Ended(pod) })
		if !o.fits[node.Name].run {
			if len(here) > 0 {
				next.NumberMisscheduled++
			}
			continue
		}
		next.DesiredNumberScheduled++
		if len(here) == 0 {
			continue
		}
		next.CurrentNumberScheduled++
		first := slices.MinFunc(here, boundFirst)
		available, _ := pods.Available(first, o.set.Spec.MinReadySeconds, o.now)
		next.NumberReady += count(pods.Ready(first))
		next.NumberAvailable += count(available)
		next.UpdatedNumberScheduled += count(o.current(first))
		for _, pod := range here {
			if _, wait := pods.Available(pod, o.set.Spec.MinReadySeconds, o.now); wait > 0 {
				p.wake(wait)
			}
		}
	}
	next.NumberUnavailable = next.DesiredNumberScheduled - next.NumberAvailable
	return next
}

func count(yes bool) int32 {
	if yes {
		return 1
	}
	return 0
}
