package pods

import (
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/status"
	"quintet.dev/quintet/components/kubelet/volumes"
)

// state is everything that is known of one pod. The goroutine of the pod's worker alone reads and writes it; its
// methods are pure: they ask neither the engine nor the API.
type state struct {
	pod      *v1.Pod // newest version seen; a made-up one for containers that the API does not know
	gone     bool    // it left the API
	admitted bool
	rejected *rejection
	ending   *plan.Stop
	status   *v1.PodStatus // last computed

	// observed is the pod as the engine had it when opsDone was observedAt; observations counts how often it was asked.
	observed     runtime.Pod
	observedAt   int
	observations int
	// opsDone counts what operations changed in the engine: an observation that began before is not true any more.
	opsDone int

	observe bool      // the engine is to be asked
	decide  bool      // what is to be done is to be decided again, about what was observed last
	wakeAt  time.Time // when to ask the engine without an event; zero is never
	over    bool      // the pod left the API and the node: its worker ends

	// Operations under way. busy is a start or work on volumes: nothing else may be started meanwhile.
	busy, observing, fetchingNode, settingLimits, settingPorts, cleaning, allocating, unpreparing bool

	allocated bool // devices were allocated

	abort    func()               // ends what makes the pod busy
	starting map[string]bool      // containers whose start is complete only after their postStart hook
	stopping map[string]time.Time // deadline of each stop under way, by ID

	failures  map[string]plan.Waiting
	notBefore map[string]time.Time
	backoff   map[string]plan.Backoff
	prepared  map[string]prepared // by name of container; nil without any
	messages  map[string]string   // termination messages, by ID of container

	volumes       map[string]volumes.Mounted // by name; nil before they were made
	refreshed     time.Time                  // when
	unmounted     bool                       // the last attempt to make them failed
	mountFailures int                        // in a row
	stale         bool                       // their contents must be rewritten
	tornDown      bool                       // they are no more: the pod has ended

	ports  portsOpened
	resize resize
	freed  bool // other pods may have what this one no longer needs
}

func newState(pod *v1.Pod) state {
	return state{
		pod: pod, observe: true, starting: map[string]bool{}, stopping: map[string]time.Time{},
		failures: map[string]plan.Waiting{}, notBefore: map[string]time.Time{}, backoff: map[string]plan.Backoff{},
		messages: map[string]string{},
		resize:   resize{tries: map[string]time.Time{}, renewed: map[string]bool{}},
	}
}

// setPod stores a version of the pod and reports whether it requires another observation.
func (s *state) setPod(pod *v1.Pod) bool {
	old := s.pod
	s.pod = pod
	sameStatus := s.status != nil && status.Same(&pod.Status, s.status)
	if sameStatus {
		s.status = &pod.Status // one in memory instead of two
	}
	shown := equality.Semantic.DeepEqual(pod.Labels, old.Labels) &&
		equality.Semantic.DeepEqual(pod.Annotations, old.Annotations)
	if !shown {
		s.stale = true // the downward API shows them
	}
	sameMeta := pod.Generation == old.Generation && (pod.DeletionTimestamp == nil) == (old.DeletionTimestamp == nil) &&
		equality.Semantic.DeepEqual(pod.DeletionGracePeriodSeconds, old.DeletionGracePeriodSeconds)
	// Every change of a spec has a generation of its own, but for specs of files, which have none (KEP-5067).
	sameSpec := pod.Generation != 0 || equality.Semantic.DeepEqual(&pod.Spec, &old.Spec)
	return !sameStatus || !sameMeta || !shown || !sameSpec
}

// knows tells that this version of the pod was seen, or one that came after it.
func (s *state) knows(pod *v1.Pod) bool {
	order, err := resourceversion.CompareResourceVersion(pod.ResourceVersion, s.pod.ResourceVersion)
	return err == nil && order <= 0
}

// changed notes that an operation changed something in the engine.
func (s *state) changed() {
	s.opsDone++
	s.observe = true
}

// upToDate tells that no operation changed anything since the engine was asked.
func (s *state) upToDate() bool { return s.observations > 0 && s.observedAt == s.opsDone }

// forgetRemoved drops what is noted of containers that are no more, however they were removed.
func (s *state) forgetRemoved() {
	there := map[string]bool{}
	for i := range s.observed.Containers {
		there[s.observed.Containers[i].ID] = true
	}
	maps.DeleteFunc(s.resize.renewed, func(id string, _ bool) bool { return !there[id] })
	maps.DeleteFunc(s.messages, func(id, _ string) bool { return !there[id] })
	maps.DeleteFunc(s.resize.tries, func(id string, at time.Time) bool { return !there[id] && !at.IsZero() })
}

// occupiesNode tells that the pod counts against the resources of the node: it was admitted and has not terminated. A
// pod that was deleted from the API does not count, though it may still be terminating: the scheduler has already
// assigned its resources to other pods.
func (s *state) occupiesNode() bool {
	if s.gone || !s.admitted || s.rejected != nil {
		return false
	}
	if s.status != nil {
		return !ended(s.status.Phase)
	}
	return !ended(s.pod.Status.Phase)
}

// releasesDevices tells that the pod needs its devices no longer: it never runs, or not any more.
func (s *state) releasesDevices() bool {
	return s.gone || s.rejected != nil && s.rejected.never || s.final() || s.status != nil && ended(s.status.Phase)
}

// final tells that the API has the pod in a final phase: it never runs again.
func (s *state) final() bool { return ended(s.pod.Status.Phase) }

func ended(phase v1.PodPhase) bool { return phase == v1.PodSucceeded || phase == v1.PodFailed }

// leaves tells that the pod is to be removed from the node, and from the API if it is still there.
func (s *state) leaves() bool { return s.gone || s.pod.DeletionTimestamp != nil }

// removable tells that no operation is under way that would create again what the removal of the pod deletes.
func (s *state) removable() bool { return !s.busy && !s.settingPorts && !s.settingLimits }

// withAddresses returns a copy of the pod with its addresses and allocated resources.
func (s *state) withAddresses(hostIPs []string) *v1.Pod {
	pod := s.pod.DeepCopy()
	s.resize.allocation.apply(pod)
	pod.Status.HostIP, pod.Status.HostIPs = "", nil
	for i, ip := range hostIPs {
		if i == 0 {
			pod.Status.HostIP = ip
		}
		pod.Status.HostIPs = append(pod.Status.HostIPs, v1.HostIP{IP: ip})
	}
	if !s.sandboxRuns() {
		return pod
	}
	ips := s.observed.Sandbox().IPs
	if pod.Spec.HostNetwork {
		ips = hostIPs
	}
	pod.Status.PodIP, pod.Status.PodIPs = "", nil
	for i, ip := range ips {
		if i == 0 {
			pod.Status.PodIP = ip
		}
		pod.Status.PodIPs = append(pod.Status.PodIPs, v1.PodIP{IP: ip})
	}
	return pod
}

func (s *state) sandboxRuns() bool {
	sandbox := s.observed.Sandbox()
	return sandbox != nil && sandbox.State == runtime.Running
}

// nextObservation is when to ask the engine next if nothing happens before; zero is not before the next resync.
func (s *state) nextObservation(decision *plan.Plan, now time.Time) time.Time {
	const least = 10 * time.Millisecond
	var next time.Time
	by := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	soon := now.Add(least)
	if at := decision.WakeAt; !at.IsZero() {
		by(later(at, soon))
	}
	if deadline, ok := s.deadline(); ok && s.ending == nil {
		by(later(deadline, soon))
	}
	if s.resize.unset && s.ending == nil {
		by(now.Add(retryDelay))
	}
	return next
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// snapshot is what others than its worker know of a pod. It never changes.
type snapshot struct {
	pod    *v1.Pod
	status *v1.PodStatus // nil before one was computed
	gone   bool
}

// current is the pod with its newest status, nil once it left the API. It is not to be changed.
func (s *snapshot) current() *v1.Pod {
	if s.gone {
		return nil
	}
	if s.status == nil {
		return s.pod
	}
	pod := *s.pod
	pod.Status = *s.status
	return &pod
}

// operations do for one pod what takes time. They know nothing of the worker's state: what they need is handed to them,
// and what came of it is a result. They are safe for concurrent use.
type operations struct {
	*Config
	uid types.UID
}
