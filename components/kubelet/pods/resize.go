package pods

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"quintet.dev/quintet/components/kubelet/cgroups"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/status"
)

// resize is a change of the resources of a pod that runs (KEP-1287). What the specification asks for is allocated when the
// node has it, and then carried out; until then the pod keeps what it was allocated before.
type resize struct {
	// allocated is what containers were promised, by name; nil before the pod was admitted. whole is what the pod was.
	allocated map[string]v1.ResourceRequirements
	whole     *v1.ResourceRequirements
	// pending is why the specification is not allocated, progress that what is allocated is not carried out.
	pending, progress *v1.PodCondition
	// tries holds containers whose resize is under way (zero) or failed, and when it is tried again, by ID.
	tries map[string]time.Time
	// limits are what the pod's control group has, since it is that of sandbox.
	limits  cgroups.Limits
	sandbox string
	unset   bool            // it could not be given others
	renewed map[string]bool // containers that are stopped to be started again, by ID
}

// allocate gives the containers of a copy of the pod what they were promised.
func (r *resize) allocate(pod *v1.Pod) {
	if r.allocated != nil {
		pod.Spec.Resources = r.whole.DeepCopy()
	}
	for _, c := range plan.Containers(pod) {
		if promised, ok := r.allocated[c.Name]; ok {
			c.Resources = *promised.DeepCopy()
		}
	}
}

// settled tells that what the pod asks for is what it was promised.
func (r *resize) settled(pod *v1.Pod) bool {
	for _, c := range plan.Containers(pod) {
		if promised, ok := r.allocated[c.Name]; !ok || !equality.Semantic.DeepEqual(promised, c.Resources) {
			return false
		}
	}
	return equality.Semantic.DeepEqual(r.whole, pod.Spec.Resources)
}

func (r *resize) conditions() []v1.PodCondition {
	var out []v1.PodCondition
	for _, c := range []*v1.PodCondition{r.pending, r.progress} {
		if c != nil {
			out = append(out, *c)
		}
	}
	return out
}

func asked(pod *v1.Pod) map[string]v1.ResourceRequirements {
	out := map[string]v1.ResourceRequirements{}
	for _, c := range plan.Containers(pod) {
		out[c.Name] = *c.Resources.DeepCopy()
	}
	return out
}

// begin takes up what an earlier kubelet promised, as the pod's status tells, or promises a new pod what it asks for. The
// resources of a pod are promised together: if a status tells of other requests than the specification, none of its changes
// was.
func (r *resize) begin(pod *v1.Pod) {
	r.allocated, r.whole = asked(pod), pod.Spec.Resources.DeepCopy()
	for i := range pod.Status.Conditions {
		switch c := pod.Status.Conditions[i]; c.Type {
		case v1.PodResizePending:
			r.pending = &c
		case v1.PodResizeInProgress:
			r.progress = &c
		}
	}
	told := map[string]*v1.ContainerStatus{}
	same := pod.Status.Resources == nil || equality.Semantic.DeepEqual(pod.Status.AllocatedResources, requests(pod))
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			told[list[i].Name] = &list[i]
			wanted := r.allocated[list[i].Name].Requests
			same = same && (list[i].Resources == nil || equality.Semantic.DeepEqual(list[i].AllocatedResources, wanted))
		}
	}
	if same {
		return
	}
	if r.whole != nil && pod.Status.Resources != nil {
		r.whole.Requests = without(pod.Status.AllocatedResources, pod.Spec.Overhead)
		r.whole.Limits = without(pod.Status.Resources.Limits, pod.Spec.Overhead)
	}
	for name := range r.allocated {
		if cs := told[name]; cs != nil && cs.Resources != nil {
			r.allocated[name] = v1.ResourceRequirements{Requests: cs.AllocatedResources, Limits: cs.Resources.Limits, Claims: r.allocated[name].Claims}
		}
	}
}

// settle allocates what the pod asks for, if it can be; it is called with the lock held.
func (w *worker) settle(now time.Time) {
	if !w.admitted || w.rejected != nil || w.gone || w.pod == nil {
		return
	}
	if w.resize.allocated == nil {
		w.resize.begin(w.pod)
	}
	if w.resize.settled(w.pod) {
		w.resize.pending = nil
		return
	}
	if p := w.resize.pending; w.ending != nil || p != nil && p.Reason == v1.PodReasonInfeasible && p.ObservedGeneration == w.pod.Generation {
		return
	}
	w.mu.Unlock() // others have locks of their own
	w.m.settleAll(now)
	w.mu.Lock()
}

// candidate is a pod whose resize is to be decided.
type candidate struct {
	worker  *worker
	pod     *v1.Pod // as it asks
	growing bool    // it asks for more than it was promised
	since   time.Time
}

// settleAll decides on all resizes that wait, the most deserving first: those that ask for no more than they have, then by
// priority, by class of service, and by how long they wait.
func (m *Manager) settleAll(now time.Time) {
	m.admission.Lock()
	defer m.admission.Unlock()
	node := m.Node()
	if node == nil {
		return
	}
	var list []candidate
	m.mu.Lock()
	for _, w := range m.workers {
		if c, waits := w.waiting(); waits {
			list = append(list, c)
		}
	}
	m.mu.Unlock()
	slices.SortFunc(list, compareCandidates)
	for i := range list {
		c := &list[i]
		reason, message := refuseResize(c.pod, node, m.others(c.worker.uid))
		c.worker.decide(c.pod, reason, message, now)
	}
}

func compareCandidates(a, b candidate) int {
	first := func(a, b bool) int {
		switch {
		case a == b:
			return 0
		case a:
			return -1
		}
		return 1
	}
	guaranteed := func(p *v1.Pod) bool { return status.QOS(p) == v1.PodQOSGuaranteed }
	return cmp.Or(first(!a.growing, !b.growing), cmp.Compare(priority(b.pod), priority(a.pod)),
		first(guaranteed(a.pod), guaranteed(b.pod)), a.since.Compare(b.since), cmp.Compare(a.pod.UID, b.pod.UID))
}

func priority(p *v1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// waiting is what there is to decide on for this pod, if there is something.
func (w *worker) waiting() (candidate, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.resize.allocated == nil || w.gone || w.ending != nil || w.rejected != nil || w.resize.settled(w.pod) {
		return candidate{}, false
	}
	had := w.pod.DeepCopy()
	w.resize.allocate(had)
	c := candidate{worker: w, pod: w.pod, growing: more(requests(w.pod), requests(had))}
	if w.resize.pending != nil {
		c.since = w.resize.pending.LastTransitionTime.Time
	}
	return c, true
}

func requests(pod *v1.Pod) v1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

func more(wanted, had v1.ResourceList) bool {
	return wanted.Cpu().Cmp(*had.Cpu()) > 0 || wanted.Memory().Cmp(*had.Memory()) > 0
}

// refuseResize tells why a pod can't have what it asks for now, or ever; nothing if it can.
func refuseResize(pod *v1.Pod, node *v1.Node, others []*v1.Pod) (reason, message string) {
	if _, static := pod.Annotations[v1.MirrorPodAnnotationKey]; static {
		return v1.PodReasonInfeasible, "In-place resize of static-pods is not supported"
	}
	wanted := requests(pod)
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		has, asked := node.Status.Allocatable[name], wanted[name]
		if asked.Cmp(has) <= 0 {
			continue
		}
		n, capacity := asked.Value(), has.Value()
		if name == v1.ResourceCPU {
			n, capacity = asked.MilliValue(), has.MilliValue()
		}
		return v1.PodReasonInfeasible, fmt.Sprintf("Node didn't have enough capacity: %s, requested: %d, capacity: %d", name, n, capacity)
	}
	if s := short(pod, node, others); s != nil {
		return v1.PodReasonDeferred, s.text()
	}
	return "", ""
}

// decide notes what was decided about pod, and tells of it.
func (w *worker) decide(pod *v1.Pod, reason, message string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pod.Generation != pod.Generation || w.resize.allocated == nil {
		return // it asks for something else by now
	}
	r := &w.resize
	if reason == "" {
		r.allocated, r.whole, r.pending = asked(pod), pod.Spec.Resources.DeepCopy(), nil
		r.progress = condition(v1.PodResizeInProgress, nil, "", "", pod.Generation, now)
		clear(r.tries)
		w.stale = true // the downward API shows resources
		w.m.record(pod, v1.EventTypeNormal, "ResizeStarted", "Pod resize started: "+summary(pod, pod.Generation, ""))
		w.poke()
		return
	}
	old := r.pending
	if old != nil && old.Reason == reason && old.Message == message && old.ObservedGeneration == pod.Generation {
		return
	}
	r.pending = condition(v1.PodResizePending, old, reason, message, pod.Generation, now)
	if old == nil || old.Reason != reason || old.ObservedGeneration != pod.Generation {
		w.m.record(pod, v1.EventTypeWarning, "Resize"+reason, "Pod resize "+reason+": "+summary(pod, pod.Generation, message))
	}
	w.poke()
}

func condition(kind v1.PodConditionType, old *v1.PodCondition, reason, message string, generation int64, now time.Time) *v1.PodCondition {
	at := metav1.NewTime(now).Rfc3339Copy()
	c := &v1.PodCondition{
		Type: kind, Status: v1.ConditionTrue, LastProbeTime: at, LastTransitionTime: at,
		Reason: reason, Message: message, ObservedGeneration: generation,
	}
	if old != nil && old.Reason == reason {
		c.LastTransitionTime = old.LastTransitionTime
	}
	return c
}

// summary is what events tell of a resize.
func summary(pod *v1.Pod, generation int64, problem string) string {
	type container struct {
		Name      string                  `json:"name"`
		Resources v1.ResourceRequirements `json:"resources"`
	}
	out := struct {
		InitContainers []container `json:"initContainers,omitempty"`
		Containers     []container `json:"containers,omitempty"`
		Generation     int64       `json:"generation"`
		Error          string      `json:"error,omitempty"`
	}{Generation: generation, Error: problem}
	for i := range pod.Spec.InitContainers {
		out.InitContainers = append(out.InitContainers, container{pod.Spec.InitContainers[i].Name, pod.Spec.InitContainers[i].Resources})
	}
	for i := range pod.Spec.Containers {
		out.Containers = append(out.Containers, container{pod.Spec.Containers[i].Name, pod.Spec.Containers[i].Resources})
	}
	data, err := json.Marshal(out)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// wanted is what the engine is to give the containers of a pod that has what it was allocated.
func (w *worker) wanted(pod *v1.Pod) map[string]runtime.Resources {
	if w.resize.allocated == nil {
		return nil
	}
	out := map[string]runtime.Resources{}
	for _, c := range plan.Containers(pod) {
		out[c.Name] = w.m.Builder.Resources(pod, c)
	}
	return out
}

// followResize tells whether what is allocated is carried out; it is called with the lock held.
func (w *worker) followResize(pod *v1.Pod, observed *runtime.Pod, wanted map[string]runtime.Resources, now time.Time) {
	r := &w.resize
	if wanted == nil {
		return
	}
	left := w.containersLeft(pod, observed, wanted)
	left = !w.limitPod(pod, observed, left, now) || left
	switch {
	case left && r.progress == nil:
		r.progress = condition(v1.PodResizeInProgress, nil, "", "", pod.Generation, now)
	case !left && r.progress != nil:
		w.m.record(pod, v1.EventTypeNormal, "ResizeCompleted", "Pod resize completed: "+summary(pod, r.progress.ObservedGeneration, ""))
		r.progress = nil
		clear(r.tries)
		w.freed = true
	}
}

// containersLeft tells that containers don't have what they were allocated yet.
func (w *worker) containersLeft(pod *v1.Pod, observed *runtime.Pod, wanted map[string]runtime.Resources) bool {
	r, left := &w.resize, false
	for _, c := range plan.Containers(pod) {
		run := observed.Container(c.Name)
		switch {
		case run == nil:
		case run.State == runtime.Running:
			resizes, _ := plan.Resizes(c, run, wanted)
			left = left || resizes
		case run.State == runtime.Exited && r.renewed[run.ID]:
			left = true
		}
	}
	return left
}

// resizeContainer begins to give a container other resources; it is called with the lock held.
func (w *worker) resizeContainer(ctx context.Context, pod *v1.Pod, observed *runtime.Pod, action plan.Action) {
	w.resize.tries[action.ID] = time.Time{}
	shrinks := false
	if run := observed.Container(action.Name); run != nil {
		shrinks = run.MemoryBytes == 0 || action.Resources.MemoryBytes < run.MemoryBytes
	}
	w.ops.Go(func() {
		err := w.tryResize(ctx, action, shrinks)
		w.mu.Lock()
		w.deeds++
		delete(w.resize.tries, action.ID)
		if err != nil && ctx.Err() == nil {
			now := w.m.Clock.Now()
			w.resize.tries[action.ID] = now.Add(retryDelay)
			w.resizeFailed(pod, err, now)
		}
		w.mu.Unlock()
		w.poke()
	})
}

// tryResize changes what a container has. Memory that it uses is not taken from it.
func (w *worker) tryResize(ctx context.Context, action plan.Action, shrinks bool) error {
	if engine, able := w.m.Engine.(runtime.Statistics); able && shrinks && action.Resources.MemoryBytes > 0 {
		usage, err := engine.Stats(ctx, action.ID)
		if err != nil {
			return fmt.Errorf("unable to read memory usage of container %q: %w", action.Name, err)
		}
		if usage.MemoryBytes >= uint64(action.Resources.MemoryBytes) {
			return fmt.Errorf("cannot decrease memory limits: attempting to set container %q memory limit (%d) below current usage (%d)",
				action.Name, action.Resources.MemoryBytes, usage.MemoryBytes)
		}
	}
	return w.m.Engine.Resize(ctx, action.ID, action.Resources)
}

// resizeFailed tells why a resize could not be carried out; it is called with the lock held.
func (w *worker) resizeFailed(pod *v1.Pod, err error, now time.Time) {
	generation := pod.Generation
	old := w.resize.progress
	if old != nil {
		generation = old.ObservedGeneration
	}
	if old == nil || old.Message != err.Error() {
		w.m.record(pod, v1.EventTypeWarning, "ResizeError", "Pod resize error: "+summary(pod, generation, err.Error()))
	}
	w.resize.progress = condition(v1.PodResizeInProgress, old, v1.PodReasonError, err.Error(), generation, now)
}

// pokeDeferred lets pods whose resize waits try again: another pod gave something back.
func (m *Manager) pokeDeferred() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.workers {
		w.pokeIfDeferred()
	}
}

func (w *worker) pokeIfDeferred() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.resize.pending != nil && w.resize.pending.Reason == v1.PodReasonDeferred {
		w.poke()
	}
}
