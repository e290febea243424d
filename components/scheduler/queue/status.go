package queue

import "k8s.io/apimachinery/pkg/types"

// Status is where a pod is in the queue.
type Status struct {
	Namespace, Name string
	UID             types.UID
	SchedulerName   string
	Attempts        int
	// State is active, backoff, unschedulable, gated or inFlight.
	State string
	// GatedBy is the plug-in that keeps a gated pod from being tried.
	GatedBy string
	// GateReason is why it does.
	GateReason string
}

// Pods lists the pods in the queue, in no order.
func (q *Queue) Pods() []Status {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make([]Status, 0, len(q.items))
	for _, i := range q.items {
		obj := i.Pod.Obj
		all = append(all, Status{Namespace: obj.Namespace, Name: obj.Name, UID: obj.UID,
			SchedulerName: obj.Spec.SchedulerName, Attempts: i.Attempts, State: i.state.String(),
			GatedBy: i.GatedBy(), GateReason: i.gateReason})
	}
	return all
}

func (s state) String() string {
	switch s {
	case active:
		return "active"
	case backingOff, failing:
		return "backoff"
	case unschedulable:
		return "unschedulable"
	case gated:
		return "gated"
	}
	return "inFlight"
}
