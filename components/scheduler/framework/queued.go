package framework

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"quintet.dev/quintet/components/scheduler/queue"
)

// queuedPod is a fwk.QueuedPodInfo. It is valid during the call that it is passed to.
type queuedPod struct{ item *queue.Item }

var _ fwk.QueuedPodInfo = queuedPod{}

func (q queuedPod) GetPodInfo() fwk.PodInfo             { return podInfo{q.item.Pod} }
func (q queuedPod) GetTimestamp() time.Time             { return q.item.Queued() }
func (q queuedPod) GetAttempts() int                    { return q.item.Attempts }
func (q queuedPod) GetBackoffExpiration() time.Time     { return q.item.Ready() }
func (q queuedPod) GetUnschedulableCount() int          { return q.item.Refusals() }
func (q queuedPod) GetConsecutiveErrorsCount() int      { return q.item.Errors() }
func (q queuedPod) GetPendingPlugins() sets.Set[string] { return sets.New[string]() }
func (q queuedPod) GetGatingPlugin() string             { return q.item.GatedBy() }

func (q queuedPod) GetGatingPluginEvents() []fwk.ClusterEvent { return nil }

func (q queuedPod) GetInitialAttemptTimestamp() *time.Time {
	if q.item.Since.IsZero() {
		return nil
	}
	return &q.item.Since
}

func (q queuedPod) GetUnschedulablePlugins() sets.Set[string] {
	return sets.New(q.item.RefusedBy...)
}
