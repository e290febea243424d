// Package nodes holds functions on nodes and their taints that several controllers share.
package nodes

import (
	"context"
	"encoding/json"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Condition returns the condition of type t, or nil.
func Condition(node *v1.Node, t v1.NodeConditionType) *v1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == t {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// Ready is the status of the Ready condition; Unknown if there is none.
func Ready(node *v1.Node) v1.ConditionStatus {
	if c := Condition(node, v1.NodeReady); c != nil {
		return c.Status
	}
	return v1.ConditionUnknown
}

// HasTaint tells whether the node has a taint of the same key and effect.
func HasTaint(node *v1.Node, taint v1.Taint) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool { return t.MatchTaint(&taint) })
}

// WithTaints returns taints without those that match remove, and with those of add that are missing, stamped with now.
// changed tells whether that differs.
func WithTaints(taints, add, remove []v1.Taint, now metav1.Time) (result []v1.Taint, changed bool) {
	for _, taint := range taints {
		if slices.ContainsFunc(remove, func(r v1.Taint) bool { return r.MatchTaint(&taint) }) {
			changed = true
			continue
		}
		result = append(result, taint)
	}
	for _, taint := range add {
		if !slices.ContainsFunc(result, func(r v1.Taint) bool { return r.MatchTaint(&taint) }) {
			taint.TimeAdded = &now
			result = append(result, taint)
			changed = true
		}
	}
	return result, changed
}

// Patch merges spec and labels into the node, if it is still the version that the caller decided on; otherwise it
// returns a conflict.
func Patch(ctx context.Context, client kubernetes.Interface, node *v1.Node, taints []v1.Taint,
	labels map[string]string) error {
	metadata := map[string]any{"resourceVersion": node.ResourceVersion, "uid": node.UID}
	if labels != nil {
		metadata["labels"] = labels
	}
	body := map[string]any{"metadata": metadata}
	if taints == nil {
		taints = []v1.Taint{}
	}
	body["spec"] = map[string]any{"taints": taints}
	patch, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// Reference names the node as the subject of events the way the kubelet does: by its name instead of its UID.
func Reference(name string) *v1.ObjectReference {
	return &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
}
