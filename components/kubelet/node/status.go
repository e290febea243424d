package node

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/inplacepodresize"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/restartallcontainers"

	kruntime "quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/internal/release"
)

func systemInfo(info kruntime.Info) v1.NodeSystemInfo {
	return v1.NodeSystemInfo{
		MachineID:               first("/etc/machine-id", "/var/lib/dbus/machine-id"),
		SystemUUID:              first("/sys/class/dmi/id/product_uuid", "/etc/machine-id"),
		BootID:                  first("/proc/sys/kernel/random/boot_id"),
		KernelVersion:           info.KernelVersion,
		OSImage:                 info.OperatingSystem,
		ContainerRuntimeVersion: info.Name + "://" + info.Version,
		KubeletVersion:          release.Get().GitVersion,
		OperatingSystem:         "linux",
		Architecture:            info.Architecture,
	}
}

// declared are the features of which the API server asks before it lets a running pod have them (KEP-5328).
func declared() []string {
	return []string{
		inplacepodresize.IPPRPodLevelResourcesFeatureGate, inplacepodresize.IPPRInitContainersFeatureGate,
		restartallcontainers.RestartAllContainersOnContainerExits,
	}
}

// first is the content of the first of files that can be read.
func first(files ...string) string {
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil {
			return strings.TrimSpace(string(data))
		}
	}
	return ""
}

// status is the node as it is now; what others wrote into current's status stays.
func (n *Node) status(ctx context.Context, current *v1.Node) v1.NodeStatus {
	s := *current.Status.DeepCopy()
	n.recordChanges(current)
	s.NodeInfo = n.machine
	if n.SwapBytes > 0 {
		s.NodeInfo.Swap = &v1.NodeSwapStatus{Capacity: new(n.SwapBytes)}
	}
	s.DeclaredFeatures = declared()
	s.Addresses = n.Addresses
	s.DaemonEndpoints.KubeletEndpoint.Port = n.Port
	if n.VolumesInUse != nil {
		s.VolumesInUse = n.VolumesInUse()
		slices.Sort(s.VolumesInUse)
	}
	info, engineErr := n.Engine.Info(ctx)
	if engineErr == nil {
		n.engineSeen = n.Clock.Now()
		s.RuntimeHandlers = runtimeHandlers(info)
		s.Features = &v1.NodeFeatures{SupplementalGroupsPolicy: new(info.StrictGroups)}
		n.resources(info, &s)
		if images, err := n.Engine.Images(ctx); err == nil {
			s.Images = n.images(images)
		}
	}
	var lacks []v1.NodeConditionType
	if n.Pressure != nil {
		lacks = n.Pressure()
	}
	for _, kind := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure} {
		n.setCondition(&s, pressure(kind, slices.Contains(lacks, kind)))
	}
	n.setCondition(&s, n.ready(engineErr))
	return s
}

// runtimeHandlers are those that the engine tells of, or the only one of an engine that has no others.
func runtimeHandlers(info kruntime.Info) []v1.NodeRuntimeHandler {
	told := info.Handlers
	if len(told) == 0 {
		told = []kruntime.Handler{{RecursiveReadOnly: info.RecursiveReadOnly}}
	}
	var all []v1.NodeRuntimeHandler
	for _, handler := range told {
		all = append(all, v1.NodeRuntimeHandler{Name: handler.Name, Features: &v1.NodeRuntimeHandlerFeatures{
			RecursiveReadOnlyMounts: new(handler.RecursiveReadOnly), UserNamespaces: new(false),
		}})
	}
	return all
}

// pressure is the condition that tells whether the node lacks something.
func pressure(kind v1.NodeConditionType, lacks bool) v1.NodeCondition {
	c := v1.NodeCondition{Type: kind, Status: v1.ConditionFalse}
	if lacks {
		c.Status = v1.ConditionTrue
	}
	switch {
	case kind == v1.NodeMemoryPressure && lacks:
		c.Reason, c.Message = "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"
	case kind == v1.NodeMemoryPressure:
		c.Reason, c.Message = "KubeletHasSufficientMemory", "kubelet has sufficient memory available"
	case kind == v1.NodeDiskPressure && lacks:
		c.Reason, c.Message = "KubeletHasDiskPressure", "kubelet has disk pressure"
	case kind == v1.NodeDiskPressure:
		c.Reason, c.Message = "KubeletHasNoDiskPressure", "kubelet has no disk pressure"
	case lacks:
		c.Reason, c.Message = "KubeletHasInsufficientPID", "kubelet has insufficient PID available"
	default:
		c.Reason, c.Message = "KubeletHasSufficientPID", "kubelet has sufficient PID available"
	}
	return c
}

// ready tells whether pods can run here. An engine that fails to answer once may be busy: it has EngineGrace.
func (n *Node) ready(engineErr error) v1.NodeCondition {
	n.mu.Lock()
	networkErr := n.networkErr
	n.mu.Unlock()
	var failures []error
	if engineErr != nil && n.Clock.Since(n.engineSeen) >= n.EngineGrace {
		failures = append(failures, fmt.Errorf("container runtime is down: %w", engineErr))
	}
	if n.Healthy != nil {
		if err := n.Healthy(); err != nil {
			failures = append(failures, err)
		}
	}
	if networkErr != nil {
		failures = append(failures, fmt.Errorf("container runtime network not ready: %w", networkErr))
	}
	if failure := utilerrors.NewAggregate(failures); failure != nil {
		return v1.NodeCondition{
			Type: v1.NodeReady, Status: v1.ConditionFalse, Reason: "KubeletNotReady", Message: failure.Error(),
		}
	}
	return v1.NodeCondition{
		Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady",
		Message: "kubelet is posting ready status",
	}
}

// recordChanges tells, once each, that the machine was rebooted since the API server heard of it last, and that pods
// are scheduled to it no more, or again.
func (n *Node) recordChanges(current *v1.Node) {
	before, now := current.Status.NodeInfo.BootID, n.machine.BootID
	if before != "" && before != now && !n.rebootTold {
		n.rebootTold = true
		n.eventOf(v1.EventTypeWarning, "Rebooted", fmt.Sprintf("Node %s has been rebooted, boot id: %s", n.Name, now))
	}
	if n.unschedulable == current.Spec.Unschedulable {
		return
	}
	n.unschedulable = current.Spec.Unschedulable
	reason := "NodeSchedulable"
	if n.unschedulable {
		reason = "NodeNotSchedulable"
	}
	n.event(reason, "Node "+n.Name+" status is now: "+reason)
}

// record tells of a condition that is new or has another status than before, as upstream's kubelet does: that a node is
// ready only if it was not.
func (n *Node) record(c *v1.NodeCondition, isNew bool) {
	var reason string
	switch {
	case c.Type != v1.NodeReady:
		reason = "Node" + strings.TrimPrefix(c.Reason, "Kubelet")
	case isNew:
		return
	case c.Status == v1.ConditionTrue:
		reason = "NodeReady"
	default:
		reason = "NodeNotReady"
	}
	n.event(reason, "Node "+n.Name+" status is now: "+reason)
}

func (n *Node) event(reason, message string) { n.eventOf(v1.EventTypeNormal, reason, message) }

func (n *Node) eventOf(kind, reason, message string) {
	ref := &v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: n.Name, UID: types.UID(n.Name)}
	n.Recorder.Event(ref, kind, reason, message)
}

func (n *Node) setCondition(s *v1.NodeStatus, c v1.NodeCondition) {
	now := metav1.NewTime(n.Clock.Now()).Rfc3339Copy()
	c.LastHeartbeatTime, c.LastTransitionTime = now, now
	for i := range s.Conditions {
		if s.Conditions[i].Type == c.Type {
			if s.Conditions[i].Status == c.Status {
				c.LastTransitionTime = s.Conditions[i].LastTransitionTime
			} else {
				n.record(&c, false)
			}
			s.Conditions[i] = c
			return
		}
	}
	n.record(&c, true)
	s.Conditions = append(s.Conditions, c)
}

// images lists the largest images, which matter most where a pod is placed.
func (n *Node) images(found []kruntime.Image) []v1.ContainerImage {
	var list []v1.ContainerImage
	for _, image := range found {
		names := append(slices.Clone(image.Digests), image.Tags...)
		names = slices.DeleteFunc(names, func(name string) bool { return strings.Contains(name, "<none>") })
		if len(names) > 0 {
			list = append(list, v1.ContainerImage{Names: names[:min(len(names), 5)], SizeBytes: image.SizeBytes})
		}
	}
	slices.SortFunc(list, func(a, b v1.ContainerImage) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), cmp.Compare(a.Names[0], b.Names[0]))
	})
	if n.MaxImages >= 0 && len(list) > int(n.MaxImages) {
		list = list[:n.MaxImages]
	}
	return list
}

// same compares statuses without the times of heartbeats, by their encodings.
func same(a, b *v1.NodeStatus) bool {
	encoded := func(s v1.NodeStatus) ([]byte, error) {
		s.Conditions = slices.Clone(s.Conditions)
		for i := range s.Conditions {
			s.Conditions[i].LastHeartbeatTime = metav1.Time{}
		}
		return s.Marshal()
	}
	one, errA := encoded(*a)
	other, errB := encoded(*b)
	return errA == nil && errB == nil && bytes.Equal(one, other)
}

func (n *Node) labels() map[string]string {
	labels := map[string]string{
		v1.LabelHostname: n.Name, v1.LabelOSStable: "linux", v1.LabelArchStable: n.machine.Architecture,
		"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": n.machine.Architecture,
	}
	for key, value := range n.Labels {
		labels[key] = value
	}
	return labels
}
