package framework

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"quintet.dev/quintet/components/scheduler/commit"
	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Services are what the plug-ins of all profiles share.
type Services struct {
	Client      kubernetes.Interface
	Config      *rest.Config // nil for a scheduler that was given a client only
	Informers   informers.SharedInformerFactory
	Waiting     *commit.Waiting
	Parallelism int
	// Scheduler is set before the scheduler runs.
	Scheduler Scheduler

	watched  []Watched
	preBinds sync.Map // *podInPreBind by types.UID
}

// Scheduler is what plug-ins ask of the scheduler. Its methods may be called while a decision is made.
type Scheduler interface {
	// Context ends with the scheduler.
	Context() context.Context
	Activate(pods []types.UID)
	Nominate(p *snapshot.Pod, node string)
	RemoveNomination(uid types.UID)
	NominatedOn(node string) []*snapshot.Pod
	// Recorder is nil before the scheduler runs.
	Recorder(profile string) events.EventRecorderLogger
}

// Handle is the fwk.Handle of a profile. The state of the cycle in it belongs to the goroutine that decides.
type Handle struct {
	services *Services
	profile  string
	cycle    *cycle.Profile

	attempt *cycle.Attempt
	state   *State
	lister  *lister
}

var _ fwk.Handle = (*Handle)(nil)

// NewHandle returns the handle for plug-ins of a profile.
func NewHandle(s *Services, name string, p *cycle.Profile) *Handle {
	return &Handle{services: s, profile: name, cycle: p, lister: &lister{snapshot: snapshot.New()}}
}

// use has each decision of the profile begin with a fresh state.
func (h *Handle) use() {
	h.cycle.Begin = func(a *cycle.Attempt) any {
		h.attempt, h.state, h.lister = a, &State{}, &lister{snapshot: a.Snapshot}
		return h.state
	}
}

func (h *Handle) context() context.Context {
	if h.services.Scheduler == nil {
		return context.Background() // the plug-in is being made
	}
	return h.services.Scheduler.Context()
}

func (h *Handle) logger() klog.Logger { return klog.FromContext(h.context()) }

// ProfileName is the profile's schedulerName.
func (h *Handle) ProfileName() string { return h.profile }

// ClientSet reaches the API server.
func (h *Handle) ClientSet() kubernetes.Interface { return h.services.Client }

// KubeConfig is how the API server is reached; nil for a scheduler that was given a client only.
func (h *Handle) KubeConfig() *rest.Config {
	if h.services.Config == nil {
		return nil
	}
	return rest.CopyConfig(h.services.Config)
}

// SharedInformerFactory has the scheduler's own informers. Those that a factory of a plug-in asks for are started with
// the scheduler.
func (h *Handle) SharedInformerFactory() informers.SharedInformerFactory { return h.services.Informers }

// SnapshotSharedLister lists what the current decision is made on.
func (h *Handle) SnapshotSharedLister() fwk.SharedLister { return h.lister }

// EventRecorder records events of the profile, while the scheduler runs.
func (h *Handle) EventRecorder() events.EventRecorderLogger { return recorder{h} }

type recorder struct{ handle *Handle }

func (r recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	if s := r.handle.services.Scheduler; s != nil {
		if to := s.Recorder(r.handle.profile); to != nil {
			to.Eventf(regarding, related, kind, reason, action, note, args...)
		}
	}
}

func (r recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }

// IterateOverWaitingPods visits the pods that wait for permission.
func (h *Handle) IterateOverWaitingPods(visit func(fwk.WaitingPod)) {
	h.services.Waiting.Each(func(p *commit.WaitingPod) { visit(p) })
}

// GetWaitingPod returns nil for a pod that doesn't wait.
func (h *Handle) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	if p := h.services.Waiting.Get(uid); p != nil {
		return p
	}
	return nil
}

// RejectWaitingPod returns false for a pod that doesn't wait.
func (h *Handle) RejectWaitingPod(uid types.UID) bool { return h.services.Waiting.Reject(uid) }

// AddPodInPreBind makes a pod known whose binding may be cancelled.
func (h *Handle) AddPodInPreBind(uid types.UID, cancel context.CancelCauseFunc) {
	h.services.AddPodInPreBind(uid, cancel)
}

// GetPodInPreBind returns nil for a pod that is not being bound.
func (h *Handle) GetPodInPreBind(uid types.UID) fwk.PodInPreBind { return h.services.podInPreBind(uid) }

// RemovePodInPreBind forgets it.
func (h *Handle) RemovePodInPreBind(uid types.UID) { h.services.RemovePodInPreBind(uid) }

// SharedCSIManager lists the CSINodes, by their informer.
func (h *Handle) SharedCSIManager() fwk.CSIManager {
	return csiNodes{h.services.Informers.Storage().V1().CSINodes().Lister()}
}

// SharedDRAManager is nil: this scheduler allocates no devices.
func (*Handle) SharedDRAManager() fwk.SharedDRAManager { return nil }

// APIDispatcher is nil, as upstream's is without the gate SchedulerAsyncAPICalls.
func (*Handle) APIDispatcher() fwk.APIDispatcher { return nil }

// APICacher is nil, as upstream's is without the gate SchedulerAsyncAPICalls.
func (*Handle) APICacher() fwk.APICacher { return nil }

// Extenders are none.
func (*Handle) Extenders() []fwk.Extender { return nil }

// PodGroupManager knows no groups, as upstream's does without the gate GenericWorkload.
func (*Handle) PodGroupManager() fwk.PodGroupManager { return noGroups{} }

// SignPod returns no signature: results of one pod are not reused for others.
func (*Handle) SignPod(context.Context, *v1.Pod) fwk.PodSignature { return nil }

// Parallelizer runs pieces of work at once, as many as the configuration's parallelism.
func (h *Handle) Parallelizer() fwk.Parallelizer { return parallelizer(h.services.Parallelism) }

type parallelizer int

func (p parallelizer) Until(ctx context.Context, pieces int, do workqueue.DoWorkPieceFunc, _ string) {
	workqueue.ParallelizeUntil(ctx, int(p), pieces, do)
}

// Activate has pods tried at once.
func (h *Handle) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	if h.services.Scheduler == nil {
		return
	}
	uids := make([]types.UID, 0, len(pods))
	for _, p := range pods {
		uids = append(uids, p.UID)
	}
	h.services.Scheduler.Activate(uids)
}
