package framework

import (
	"context"
	"errors"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"quintet.dev/quintet/components/scheduler/snapshot"
)

// AddNominatedPod nominates a pod to the node of info or, without one, to that of its status.
func (h *Handle) AddNominatedPod(_ klog.Logger, p fwk.PodInfo, info *fwk.NominatingInfo) {
	node := p.GetPod().Status.NominatedNodeName
	if info.Mode() == fwk.ModeOverride {
		node = info.NominatedNodeName
	}
	if node != "" && h.services.Scheduler != nil {
		h.services.Scheduler.Nominate(podOf(p), node)
	}
}

// DeleteNominatedPodIfExists ends a pod's nomination.
func (h *Handle) DeleteNominatedPodIfExists(pod *v1.Pod) {
	if h.services.Scheduler != nil {
		h.services.Scheduler.RemoveNomination(pod.UID)
	}
}

// UpdateNominatedPod replaces a nominated pod.
func (h *Handle) UpdateNominatedPod(logger klog.Logger, old *v1.Pod, now fwk.PodInfo) {
	if h.services.Scheduler == nil {
		return
	}
	h.services.Scheduler.RemoveNomination(old.UID)
	h.AddNominatedPod(logger, now, nil)
}

// NominatedPodsForNode returns the pods that are nominated to a node.
func (h *Handle) NominatedPodsForNode(node string) []fwk.PodInfo {
	if h.services.Scheduler == nil {
		return nil
	}
	var infos []fwk.PodInfo
	for _, p := range h.services.Scheduler.NominatedOn(node) {
		infos = append(infos, podInfo{p})
	}
	return infos
}

var errNoCycle = errors.New("the pod is not the one that is being scheduled")

// check returns an error status unless a decision is being made for the pod.
func (h *Handle) check(pod *v1.Pod) *fwk.Status {
	if h.attempt == nil || h.attempt.Pod.UID() != pod.UID {
		return fwk.AsStatus(errNoCycle)
	}
	return nil
}

// nodeOf returns the node of an info of ours.
func nodeOf(info fwk.NodeInfo) *snapshot.Node {
	if own, ok := info.(*nodeInfo); ok {
		return own.node
	}
	made := &snapshot.Node{Name: info.Node().Name}
	made.Describe(info.Node())
	for _, p := range info.GetPods() {
		made.Add(podOf(p))
	}
	return made
}

// RunFilterPlugins runs the profile's filters, ours too, on a node that may be a changed copy.
func (h *Handle) RunFilterPlugins(_ context.Context, _ fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	if s := h.check(pod); s != nil {
		return s
	}
	return status(h.attempt.CheckOnly(nodeOf(info)))
}

// RunFilterPluginsWithNominatedPods runs them with and without the pods that are nominated to the node.
func (h *Handle) RunFilterPluginsWithNominatedPods(_ context.Context, _ fwk.CycleState, pod *v1.Pod,
	info fwk.NodeInfo) *fwk.Status {
	if s := h.check(pod); s != nil {
		return s
	}
	return status(h.attempt.Check(nodeOf(info)))
}

// RunPreFilterExtensionAddPod tells the filters of a pod that is added to a copy of a node.
func (h *Handle) RunPreFilterExtensionAddPod(_ context.Context, _ fwk.CycleState, pod *v1.Pod, add fwk.PodInfo,
	info fwk.NodeInfo) *fwk.Status {
	if s := h.check(pod); s != nil {
		return s
	}
	h.attempt.Follow(podOf(add), nodeOf(info), 1)
	return nil
}

// RunPreFilterExtensionRemovePod tells the filters of a pod that is removed from a copy of a node.
func (h *Handle) RunPreFilterExtensionRemovePod(_ context.Context, _ fwk.CycleState, pod *v1.Pod, remove fwk.PodInfo,
	info fwk.NodeInfo) *fwk.Status {
	if s := h.check(pod); s != nil {
		return s
	}
	h.attempt.Follow(podOf(remove), nodeOf(info), -1)
	return nil
}

// RunPreScorePlugins does nothing: RunScorePlugins prepares scores itself.
func (h *Handle) RunPreScorePlugins(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	return h.check(pod)
}

// RunScorePlugins runs the profile's scores, ours too, on some nodes.
func (h *Handle) RunScorePlugins(_ context.Context, _ fwk.CycleState, pod *v1.Pod,
	infos []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	if s := h.check(pod); s != nil {
		return nil, s
	}
	nodes := make([]*snapshot.Node, len(infos))
	for i := range infos {
		nodes[i] = nodeOf(infos[i])
	}
	scores, err := h.cycle.ScoreNodes(h.attempt, nodes)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	out := make([]fwk.NodePluginScores, len(scores))
	for i, of := range scores {
		out[i] = fwk.NodePluginScores{Name: of.Node, TotalScore: of.Total}
		for _, plugin := range h.cycle.Scores {
			out[i].Scores = append(out[i].Scores, fwk.PluginScore{Name: plugin.Name(), Score: of.ByPlugin[plugin.Name()]})
		}
	}
	return out, nil
}

// podInPreBind is a fwk.PodInPreBind.
type podInPreBind struct {
	mu                  sync.Mutex
	cancel              context.CancelCauseFunc
	cancelled, prebound bool
}

// AddPodInPreBind makes a pod known whose binding may be cancelled.
func (s *Services) AddPodInPreBind(uid types.UID, cancel context.CancelCauseFunc) {
	s.preBinds.Store(uid, &podInPreBind{cancel: cancel})
}

// RemovePodInPreBind forgets it.
func (s *Services) RemovePodInPreBind(uid types.UID) { s.preBinds.Delete(uid) }

// MarkPrebound ends the time in which the pod's binding may be cancelled; false if it was.
func (s *Services) MarkPrebound(uid types.UID) bool {
	p := s.podInPreBind(uid)
	return p == nil || p.MarkPrebound()
}

func (s *Services) podInPreBind(uid types.UID) fwk.PodInPreBind {
	if p, ok := s.preBinds.Load(uid); ok {
		return p.(*podInPreBind)
	}
	return nil
}

// CancelPod returns false for a pod that is past the point.
func (p *podInPreBind) CancelPod(reason string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.prebound {
		return false
	}
	p.cancelled = true
	p.cancel(errors.New(reason))
	return true
}

func (p *podInPreBind) MarkPrebound() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prebound = !p.cancelled
	return p.prebound
}
