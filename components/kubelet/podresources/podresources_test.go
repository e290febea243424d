package podresources

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"

	"quintet.dev/quintet/components/kubelet/devices"
	"quintet.dev/quintet/components/kubelet/dra"
)

type fixed struct{}

func (fixed) Healthy() []devices.Device {
	return []devices.Device{
		{Resource: "x/a", ID: "0", NUMANodes: []int64{0}}, {Resource: "x/a", ID: "1", NUMANodes: []int64{1}},
		{Resource: "x/a", ID: "2", NUMANodes: []int64{0}}, {Resource: "x/b", ID: "0"},
	}
}

func (fixed) Allocated(uid types.UID, container string) []devices.Device {
	if uid == "u" && container == "app" {
		return []devices.Device{{Resource: "x/a", ID: "1", NUMANodes: []int64{1}}}
	}
	return nil
}

func (fixed) Claims(_ *v1.Pod, c *v1.Container) ([]*dra.Claim, error) {
	if c.Name != "app" {
		return nil, errors.New("not prepared")
	}
	share := "s"
	return []*dra.Claim{{Namespace: "ns", Name: "claim", Drivers: map[string][]dra.Device{
		"gpu.example.com": {{Pool: "p", Name: "d", ShareID: &share, CDI: []string{"example.com/gpu=0"}}}}}}, nil
}

// client connects to a server of the pods.
func client(t *testing.T, pods ...*v1.Pod) api.PodResourcesListerClient {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	socket := filepath.Join(t.TempDir(), "dir", "kubelet.sock")
	server := &Server{Pods: func() []*v1.Pod { return pods }, Devices: fixed{}, Claims: fixed{}}
	done := make(chan error)
	go func() { done <- server.Run(ctx, socket) }()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return api.NewPodResourcesListerClient(conn)
}

func aPod(name string, phase v1.PodPhase) *v1.Pod {
	always := v1.ContainerRestartPolicyAlways
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u"},
		Spec: v1.PodSpec{
			InitContainers: []v1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: &always}},
			Containers:     []v1.Container{{Name: "app"}},
		},
		Status: v1.PodStatus{Phase: phase},
	}
}

func TestList(t *testing.T) {
	c := client(t, aPod("a", v1.PodRunning), aPod("ended", v1.PodSucceeded))
	list, err := c.List(t.Context(), &api.ListPodResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.PodResources) != 1 || list.PodResources[0].Name != "a" || list.PodResources[0].Namespace != "ns" {
		t.Fatalf("got %v", list)
	}
	containers := list.PodResources[0].Containers
	if len(containers) != 2 || containers[0].Name != "sidecar" || len(containers[0].Devices) != 0 {
		t.Fatalf("got %v", containers)
	}
	app := containers[1]
	if d := app.Devices[0]; d.ResourceName != "x/a" || d.DeviceIds[0] != "1" || d.Topology.Nodes[0].ID != 1 {
		t.Errorf("devices %v", app.Devices)
	}
	r := app.DynamicResources[0]
	if r.ClaimName != "claim" || r.ClaimNamespace != "ns" {
		t.Errorf("claim %v", r)
	}
	d := r.ClaimResources[0]
	if d.DriverName != "gpu.example.com" || d.PoolName != "p" || d.DeviceName != "d" || d.GetShareId() != "s" ||
		d.CdiDevices[0].Name != "example.com/gpu=0" {
		t.Errorf("claimed %v", d)
	}
}

func TestGet(t *testing.T) {
	c := client(t, aPod("a", v1.PodRunning))
	got, err := c.Get(t.Context(), &api.GetPodResourcesRequest{PodNamespace: "ns", PodName: "a"})
	if err != nil || got.PodResources.Name != "a" || len(got.PodResources.Containers) != 2 {
		t.Errorf("got %v, %v", got, err)
	}
	_, err = c.Get(t.Context(), &api.GetPodResourcesRequest{PodNamespace: "other", PodName: "a"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("got %v", err)
	}
}

func TestAllocatable(t *testing.T) {
	got, err := client(t).GetAllocatableResources(t.Context(), &api.AllocatableResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Devices) != 3 || len(got.Devices[0].DeviceIds) != 2 || got.Devices[0].Topology.Nodes[0].ID != 0 ||
		got.Devices[1].DeviceIds[0] != "1" || got.Devices[2].ResourceName != "x/b" || got.Devices[2].Topology != nil {
		t.Errorf("got %v", got.Devices)
	}
}
