package extender

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Filter returns the nodes that the extender refuses: those that its answer leaves out, for the reasons it gives.
func (e *Extender) Filter(p *snapshot.Pod, nodes []*snapshot.Node) (map[string]cycle.Refusal, error) {
	if e.config.FilterVerb == "" {
		return nil, nil
	}
	var answer extenderv1.ExtenderFilterResult
	if err := e.send(context.Background(), e.config.FilterVerb, e.args(p, nodes), &answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	return e.refusals(nodes, &answer)
}

// args name the nodes to an extender that knows them, and describe them to others.
func (e *Extender) args(p *snapshot.Pod, nodes []*snapshot.Node) *extenderv1.ExtenderArgs {
	args := &extenderv1.ExtenderArgs{Pod: p.Obj}
	if e.config.NodeCacheCapable {
		names := make([]string, len(nodes))
		for i, n := range nodes {
			names[i] = n.Name
		}
		args.NodeNames = &names
		return args
	}
	args.Nodes = &v1.NodeList{}
	for _, n := range nodes {
		args.Nodes.Items = append(args.Nodes.Items, *n.Obj)
	}
	return args
}

func (e *Extender) refusals(nodes []*snapshot.Node,
	answer *extenderv1.ExtenderFilterResult) (map[string]cycle.Refusal, error) {
	known := map[string]bool{}
	for _, n := range nodes {
		known[n.Name] = true
	}
	var kept []string
	switch {
	case e.config.NodeCacheCapable && answer.NodeNames != nil:
		kept = *answer.NodeNames
	case answer.Nodes != nil:
		for i := range answer.Nodes.Items {
			kept = append(kept, answer.Nodes.Items[i].Name)
		}
	}
	fits := map[string]bool{}
	for _, name := range kept {
		if !known[name] {
			return nil, fmt.Errorf("extender %q claims a filtered node %q which is not found in the input node list",
				e.config.URLPrefix, name)
		}
		fits[name] = true
	}
	refusals := map[string]cycle.Refusal{}
	for name := range known {
		if fits[name] {
			continue
		}
		var refusal cycle.Refusal
		if reason, ok := answer.FailedAndUnresolvableNodes[name]; ok {
			refusal = cycle.Refusal{Reasons: []string{reason}, Unresolvable: true}
		} else if reason, ok := answer.FailedNodes[name]; ok {
			refusal = cycle.Refusal{Reasons: []string{reason}}
		}
		refusals[name] = refusal
	}
	return refusals, nil
}

// Prioritize returns the extender's scores, brought to the range of the plug-ins' and weighted.
func (e *Extender) Prioritize(p *snapshot.Pod, nodes []*snapshot.Node) (map[string]int64, error) {
	if e.config.PrioritizeVerb == "" {
		return nil, nil
	}
	e.running(1)
	defer e.running(-1)
	var answer extenderv1.HostPriorityList
	if err := e.send(context.Background(), e.config.PrioritizeVerb, e.args(p, nodes), &answer); err != nil {
		return nil, err
	}
	scores := map[string]int64{}
	for _, host := range answer {
		scores[host.Host] += host.Score * e.config.Weight * (cycle.MaxScore / extenderv1.MaxExtenderPriority)
	}
	return scores, nil
}

// Preempt returns the nodes and victims that the extender agrees to.
func (e *Extender) Preempt(p *snapshot.Pod, s *snapshot.Snapshot,
	victims map[string]cycle.Victims) (map[string]cycle.Victims, error) {
	args := &extenderv1.ExtenderPreemptionArgs{Pod: p.Obj}
	if e.config.NodeCacheCapable {
		args.NodeNameToMetaVictims = map[string]*extenderv1.MetaVictims{}
	} else {
		args.NodeNameToVictims = map[string]*extenderv1.Victims{}
	}
	for node, on := range victims {
		meta := &extenderv1.MetaVictims{NumPDBViolations: on.Violations}
		whole := &extenderv1.Victims{NumPDBViolations: on.Violations}
		for _, pod := range on.Pods {
			meta.Pods = append(meta.Pods, &extenderv1.MetaPod{UID: string(pod.UID())})
			whole.Pods = append(whole.Pods, pod.Obj)
		}
		if e.config.NodeCacheCapable {
			args.NodeNameToMetaVictims[node] = meta
		} else {
			args.NodeNameToVictims[node] = whole
		}
	}
	var answer extenderv1.ExtenderPreemptionResult
	if err := e.send(context.Background(), e.config.PreemptVerb, args, &answer); err != nil {
		return nil, err
	}
	return e.agreed(s, &answer)
}

func (e *Extender) agreed(s *snapshot.Snapshot,
	answer *extenderv1.ExtenderPreemptionResult) (map[string]cycle.Victims, error) {
	agreed := map[string]cycle.Victims{}
	for node, meta := range answer.NodeNameToMetaVictims {
		n := s.Node(node)
		if n == nil {
			return nil, fmt.Errorf("extender: %v claims to preempt on unknown node: %v", e.config.URLPrefix, node)
		}
		on := cycle.Victims{Violations: meta.NumPDBViolations}
		for _, pod := range meta.Pods {
			found := podOn(n, types.UID(pod.UID))
			if found == nil {
				return nil, fmt.Errorf("extender: %v claims to preempt pod (UID: %v) on node: %v, but the pod is not found "+
					"on that node", e.config.URLPrefix, pod.UID, node)
			}
			on.Pods = append(on.Pods, found)
		}
		agreed[node] = on
	}
	return agreed, nil
}

func podOn(n *snapshot.Node, uid types.UID) *snapshot.Pod {
	for _, p := range n.Pods {
		if p.UID() == uid {
			return p
		}
	}
	return nil
}
