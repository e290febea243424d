package scheduler

import (
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/scheduler/commit"
	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
)

// Explanation is why a pod has no node yet: the outcome of its last attempt.
type Explanation struct {
	Namespace     string      `json:"namespace"`
	Name          string      `json:"name"`
	UID           types.UID   `json:"uid"`
	SchedulerName string      `json:"schedulerName"`
	Time          metav1.Time `json:"time"`
	Attempts      int         `json:"attempts"`
	// State is where the pod is in the queue: active, backoff, unschedulable, gated or inFlight.
	State string `json:"state,omitempty"`
	// Message is that of the condition PodScheduled.
	Message string `json:"message"`
	// Nodes in the cluster at the attempt.
	Nodes int `json:"nodes"`
	// Refusals of nodes, the most frequent first.
	Refusals []Refusal `json:"refusals,omitempty"`
	// Node is the chosen node of an attempt that failed afterwards.
	Node string `json:"node,omitempty"`
	// NominatedNode is where the pod waits for preempted ones to end.
	NominatedNode string   `json:"nominatedNode,omitempty"`
	Victims       []string `json:"victims,omitempty"`
	// Preemption is the message of the PostFilter plug-ins.
	Preemption string `json:"preemption,omitempty"`
	// WouldHelp are the events that have the pod tried again, by the plug-in that refused it.
	WouldHelp []Help `json:"wouldHelp,omitempty"`
}

// Refusal is why some nodes can't take the pod.
type Refusal struct {
	Plugin  string   `json:"plugin"`
	Reasons []string `json:"reasons"`
	// Count of the nodes; Names of the first of them, at most 100. A refusal of the pod itself names none.
	Count int      `json:"count"`
	Names []string `json:"names,omitempty"`
	// Preemptable tells whether the end of other pods could help.
	Preemptable bool `json:"preemptable"`
}

// Help are events that may help a pod that a plug-in refused.
type Help struct {
	Plugin string   `json:"plugin"`
	Events []string `json:"events"`
}

// maxNames bounds the memory that explanations of pods in large clusters take.
const maxNames = 100

// newExplanation has what all explanations of an attempt begin with.
func newExplanation(a *attempt, now time.Time) *Explanation {
	obj := a.pod.Obj
	return &Explanation{Namespace: obj.Namespace, Name: obj.Name, UID: obj.UID, SchedulerName: obj.Spec.SchedulerName,
		Time: metav1.NewTime(now), Attempts: a.item.Attempts, Nodes: a.decision.Total}
}

// explain a decision against all nodes.
func explain(a *attempt, hints queue.Hints, now time.Time) *Explanation {
	e, d := newExplanation(a, now), a.decision
	e.Message = d.Message()
	if r := d.RefusedAll; r != nil {
		e.Refusals = []Refusal{{Plugin: r.Plugin, Reasons: r.Reasons, Count: d.Total, Preemptable: !r.Unresolvable}}
	}
	index, shared := map[string]int{}, map[cycle.Refused]int{}
	for i := range d.Refused {
		r := &d.Refused[i]
		same := cycle.Refused{Plugin: r.Plugin, Refusal: r.Refusal}
		at, ok := shared[same]
		if !ok {
			at = e.group(r, index)
			shared[same] = at
		}
		e.Refusals[at].Count++
		if len(e.Refusals[at].Names) < maxNames {
			e.Refusals[at].Names = append(e.Refusals[at].Names, r.Node)
		}
	}
	if rest := d.Total - len(d.Refused); len(d.Narrowed) > 0 && rest > 0 {
		e.Refusals = append(e.Refusals, Refusal{Plugin: strings.Join(d.Narrowed, ","), Count: rest,
			Reasons: []string{"node(s) aren't among those that the pod names"}})
	}
	slices.SortStableFunc(e.Refusals, func(a, b Refusal) int { return b.Count - a.Count })
	if result := d.PostFilterResult; result != nil {
		e.Preemption, e.NominatedNode = result.Message, result.Node
		for _, victim := range result.Victims {
			e.Victims = append(e.Victims, victim.Obj.Namespace+"/"+victim.Obj.Name)
		}
	}
	for _, plugin := range d.Plugins() {
		if events := hints.Events(plugin); len(events) > 0 {
			e.WouldHelp = append(e.WouldHelp, Help{plugin, events})
		}
	}
	return e
}

// group returns where the refusals are that read as r does.
func (e *Explanation) group(r *cycle.Refused, index map[string]int) int {
	key := r.Plugin + "\x00" + strings.Join(r.Reasons, "\x00")
	at, ok := index[key]
	if !ok {
		at = len(e.Refusals)
		index[key] = at
		e.Refusals = append(e.Refusals, Refusal{Plugin: r.Plugin, Reasons: r.Reasons, Preemptable: !r.Unresolvable})
	}
	return at
}

// explainStatus explains an attempt that failed after a node was chosen, or by an error.
func explainStatus(a *attempt, hints queue.Hints, status *commit.Status, now time.Time) *Explanation {
	e := newExplanation(a, now)
	e.Message, e.Node = status.Message(), a.decision.Node
	if status.Err == nil && status.Plugin != "" {
		e.Refusals = []Refusal{{Plugin: status.Plugin, Reasons: status.Reasons, Count: 1, Names: []string{e.Node}}}
		if events := hints.Events(status.Plugin); len(events) > 0 {
			e.WouldHelp = []Help{{status.Plugin, events}}
		}
	}
	return e
}

// explanations are the last ones of the pending pods. It is safe for concurrent use.
type explanations struct {
	mu   sync.Mutex
	last map[types.UID]*Explanation
}

func newExplanations() *explanations { return &explanations{last: map[types.UID]*Explanation{}} }

func (x *explanations) keep(e *Explanation) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last[e.UID] = e
}

func (x *explanations) forget(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.last, uid)
}

func (x *explanations) get(uid types.UID) *Explanation {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.last[uid]
}
