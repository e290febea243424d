package node

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/component-base/version"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/inplacepodresize"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/restartallcontainers"

	kruntime "quintet.dev/quintet/components/kubelet/runtime"
)

// Version is what the node reports: the Kubernetes whose behaviour this kubelet has.
const Version = "v" + version.DefaultKubeBinaryVersion + ".0+quintet"

func systemInfo(info kruntime.Info) v1.NodeSystemInfo {
	return v1.NodeSystemInfo{
		MachineID:               first("/etc/machine-id", "/var/lib/dbus/machine-id"),
		SystemUUID:              first("/sys/class/dmi/id/product_uuid", "/etc/machine-id"),
		BootID:                  first("/proc/sys/kernel/random/boot_id"),
		KernelVersion:           info.KernelVersion,
		OSImage:                 info.OperatingSystem,
		ContainerRuntimeVersion: info.Name + "://" + info.Version,
		KubeletVersion:          Version,
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
	s.NodeInfo = n.machine
	s.DeclaredFeatures = declared()
	s.Addresses = n.Addresses
	s.DaemonEndpoints.KubeletEndpoint.Port = n.Port
	info, engineErr := n.Engine.Info(ctx)
	if engineErr == nil {
		n.engineSeen = n.Clock.Now()
		n.resources(info, &s)
		if images, err := n.Engine.Images(ctx); err == nil {
			s.Images = n.images(images)
		}
	}
	n.setCondition(&s, v1.NodeCondition{Type: v1.NodeMemoryPressure, Status: v1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"})
	n.setCondition(&s, v1.NodeCondition{Type: v1.NodeDiskPressure, Status: v1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"})
	n.setCondition(&s, v1.NodeCondition{Type: v1.NodePIDPressure, Status: v1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"})
	n.setCondition(&s, n.ready(engineErr))
	return s
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
		Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status",
	}
}

// record tells of a condition that is new or has another status than before, as upstream's kubelet does: that a node is
// ready only if it was not.
func (n *Node) record(c *v1.NodeCondition, isNew bool) {
	var reason string
	switch {
	case c.Type == v1.NodeMemoryPressure:
		reason = "NodeHasSufficientMemory"
	case c.Type == v1.NodeDiskPressure:
		reason = "NodeHasNoDiskPressure"
	case c.Type == v1.NodePIDPressure:
		reason = "NodeHasSufficientPID"
	case isNew:
		return
	case c.Status == v1.ConditionTrue:
		reason = "NodeReady"
	default:
		reason = "NodeNotReady"
	}
	n.event(reason, "Node "+n.Name+" status is now: "+reason)
}

func (n *Node) event(reason, message string) {
	ref := &v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: n.Name, UID: types.UID(n.Name)}
	n.Recorder.Event(ref, v1.EventTypeNormal, reason, message)
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

// resources sets capacity and allocatable; extended resources that others advertise stay.
func (n *Node) resources(info kruntime.Info, s *v1.NodeStatus) {
	if s.Capacity == nil {
		s.Capacity = v1.ResourceList{}
	}
	if s.Allocatable == nil {
		s.Allocatable = v1.ResourceList{}
	}
	own := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(info.CPUs), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(info.MemoryBytes, resource.BinarySI),
		v1.ResourcePods:   *resource.NewQuantity(int64(n.MaxPods), resource.DecimalSI),
	}
	var disk unix.Statfs_t
	if n.RootDir != "" && unix.Statfs(n.RootDir, &disk) == nil {
		own[v1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(disk.Blocks)*int64(disk.Bsize), resource.BinarySI)
	}
	for name, quantity := range own {
		s.Capacity[name] = quantity
		left := quantity.DeepCopy()
		if reserved, ok := n.Reserved[name]; ok {
			left.Sub(reserved)
			if left.Sign() < 0 {
				left.Set(0)
			}
		}
		s.Allocatable[name] = left
	}
	for name, quantity := range s.Capacity {
		if _, ok := s.Allocatable[name]; !ok {
			s.Allocatable[name] = quantity
		}
	}
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
