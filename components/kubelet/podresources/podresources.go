// Package podresources serves the pod-resources API (v1) to monitoring agents of the node: which devices its pods have
// (https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/).
package podresources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"

	"quintet.dev/quintet/components/kubelet/devices"
	"quintet.dev/quintet/components/kubelet/dra"
)

// Server answers. It is safe for concurrent use.
type Server struct {
	api.UnimplementedPodResourcesListerServer
	// Pods returns the pods of the node; they are not changed.
	Pods    func() []*v1.Pod
	Devices Devices
	Claims  Claims
}

// Devices are those of device plug-ins.
type Devices interface {
	// Healthy returns the devices of the node that can be allocated, by resource and ID.
	Healthy() []devices.Device
	// Allocated returns those of a container.
	Allocated(uid types.UID, container string) []devices.Device
}

// Claims are the claims of DRA drivers.
type Claims interface {
	// Claims returns those of a container, as they are prepared.
	Claims(pod *v1.Pod, c *v1.Container) ([]*dra.Claim, error)
}

// Run serves a socket until ctx ends. A file that is there is replaced.
func (s *Server) Run(ctx context.Context, socket string) error {
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		return fmt.Errorf("pod-resources socket: %w", err)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pod-resources socket: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("pod-resources socket: %w", err)
	}
	server := grpc.NewServer()
	api.RegisterPodResourcesListerServer(server, s)
	defer context.AfterFunc(ctx, server.Stop)()
	if err := server.Serve(listener); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// List implements api.PodResourcesListerServer: it returns the pods that have not ended.
func (s *Server) List(context.Context, *api.ListPodResourcesRequest) (*api.ListPodResourcesResponse, error) {
	response := &api.ListPodResourcesResponse{}
	for _, pod := range s.Pods() {
		if pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed {
			response.PodResources = append(response.PodResources, s.describe(pod))
		}
	}
	return response, nil
}

// Get implements api.PodResourcesListerServer.
func (s *Server) Get(_ context.Context, r *api.GetPodResourcesRequest) (*api.GetPodResourcesResponse, error) {
	for _, pod := range s.Pods() {
		if pod.Namespace == r.PodNamespace && pod.Name == r.PodName {
			return &api.GetPodResourcesResponse{PodResources: s.describe(pod)}, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "pod %s in namespace %s not found", r.PodName, r.PodNamespace)
}

// GetAllocatableResources implements api.PodResourcesListerServer.
func (s *Server) GetAllocatableResources(context.Context,
	*api.AllocatableResourcesRequest) (*api.AllocatableResourcesResponse, error) {
	return &api.AllocatableResourcesResponse{Devices: grouped(s.Devices.Healthy())}, nil
}

// describe returns what the containers of a pod have; of init containers those count that run beside the others.
func (s *Server) describe(pod *v1.Pod) *api.PodResources {
	out := &api.PodResources{Name: pod.Name, Namespace: pod.Namespace}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			out.Containers = append(out.Containers, s.container(pod, c))
		}
	}
	for i := range pod.Spec.Containers {
		out.Containers = append(out.Containers, s.container(pod, &pod.Spec.Containers[i]))
	}
	return out
}

func (s *Server) container(pod *v1.Pod, c *v1.Container) *api.ContainerResources {
	out := &api.ContainerResources{Name: c.Name, Devices: grouped(s.Devices.Allocated(pod.UID, c.Name))}
	claims, err := s.Claims.Claims(pod, c)
	if err != nil {
		return out // they are not prepared yet
	}
	for _, claim := range claims {
		dynamic := &api.DynamicResource{ClaimName: claim.Name, ClaimNamespace: claim.Namespace}
		for driver, list := range claim.Drivers {
			for i := range list {
				dynamic.ClaimResources = append(dynamic.ClaimResources, claimResource(driver, &list[i]))
			}
		}
		out.DynamicResources = append(out.DynamicResources, dynamic)
	}
	return out
}

func claimResource(driver string, d *dra.Device) *api.ClaimResource {
	r := &api.ClaimResource{DriverName: driver, PoolName: d.Pool, DeviceName: d.Name, ShareId: d.ShareID}
	for _, id := range d.CDI {
		r.CdiDevices = append(r.CdiDevices, &api.CDIDevice{Name: id})
	}
	return r
}

// grouped puts devices of one resource and the same NUMA nodes together.
func grouped(list []devices.Device) []*api.ContainerDevices {
	var groups []*api.ContainerDevices
	var nodes [][]int64
	for _, d := range list {
		i := 0
		for i < len(groups) && (groups[i].ResourceName != d.Resource || !slices.Equal(nodes[i], d.NUMANodes)) {
			i++
		}
		if i == len(groups) {
			group := &api.ContainerDevices{ResourceName: d.Resource}
			for _, node := range d.NUMANodes {
				if group.Topology == nil {
					group.Topology = &api.TopologyInfo{}
				}
				group.Topology.Nodes = append(group.Topology.Nodes, &api.NUMANode{ID: node})
			}
			groups, nodes = append(groups, group), append(nodes, d.NUMANodes)
		}
		groups[i].DeviceIds = append(groups[i].DeviceIds, d.ID)
	}
	return groups
}
