// Package plugin is a plug-in of the scheduler, written over upstream's interfaces: a pod that names a team runs on
// that team's nodes only.
package plugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-scheduler/framework"
)

const (
	// Name is the plug-in's.
	Name = "Teams"
	// Label names the team of a pod, and of a node.
	Label = "example.com/team"
)

type teams struct{}

// New makes the plug-in.
func New(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) {
	return teams{}, nil
}

func (teams) Name() string { return Name }

// Filter implements framework.FilterPlugin.
func (teams) Filter(_ context.Context, _ framework.CycleState, pod *corev1.Pod,
	node framework.NodeInfo) *framework.Status {
	if team := pod.Labels[Label]; team != "" && node.Node().Labels[Label] != team {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, "node(s) belong to another team")
	}
	return nil
}
