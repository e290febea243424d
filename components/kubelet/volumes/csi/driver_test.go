package csi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	events "k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/pluginwatcher"
	"quintet.dev/quintet/components/kubelet/volumes"
)

// fakeDriver is a driver that keeps books of what is staged and published, and complains about calls that break the
// rules of CSI: a volume is published only where it is staged, and unstaged only when it is published nowhere.
type fakeDriver struct {
	csispec.UnimplementedNodeServer
	able []csispec.NodeServiceCapability_RPC_Type

	mu        sync.Mutex
	staged    map[string]string // path by handle
	published map[string]string // handle by path
	calls     []string          // names
	last      *csispec.NodePublishVolumeRequest
	expanded  *csispec.NodeExpandVolumeRequest
	broken    []string
	fail      error // of the next publish
	failStage error // of the next stage
}

func (d *fakeDriver) called(name string) { d.calls = append(d.calls, name) }

func (d *fakeDriver) breaks(format string, args ...any) error {
	d.broken = append(d.broken, fmt.Sprintf(format, args...))
	return status.Errorf(codes.FailedPrecondition, format, args...)
}

func (d *fakeDriver) NodeGetInfo(context.Context, *csispec.NodeGetInfoRequest) (*csispec.NodeGetInfoResponse, error) {
	return &csispec.NodeGetInfoResponse{NodeId: "id-of-node", MaxVolumesPerNode: 5,
		AccessibleTopology: &csispec.Topology{Segments: map[string]string{"zone.example.com": "z1"}}}, nil
}

func (d *fakeDriver) NodeGetCapabilities(context.Context,
	*csispec.NodeGetCapabilitiesRequest) (*csispec.NodeGetCapabilitiesResponse, error) {
	answer := &csispec.NodeGetCapabilitiesResponse{}
	for _, rpc := range d.able {
		answer.Capabilities = append(answer.Capabilities, &csispec.NodeServiceCapability{
			Type: &csispec.NodeServiceCapability_Rpc{Rpc: &csispec.NodeServiceCapability_RPC{Type: rpc}}})
	}
	return answer, nil
}

func (d *fakeDriver) NodeStageVolume(_ context.Context,
	r *csispec.NodeStageVolumeRequest) (*csispec.NodeStageVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.called("stage")
	if err := d.failStage; err != nil {
		d.failStage = nil
		return nil, err
	}
	if path, ok := d.staged[r.VolumeId]; ok && path != r.StagingTargetPath {
		return nil, d.breaks("%s is staged on %s and %s", r.VolumeId, path, r.StagingTargetPath)
	}
	if _, err := os.Stat(r.StagingTargetPath); err != nil {
		return nil, d.breaks("staging path: %v", err)
	}
	d.staged[r.VolumeId] = r.StagingTargetPath
	return &csispec.NodeStageVolumeResponse{}, nil
}

func (d *fakeDriver) NodeUnstageVolume(_ context.Context,
	r *csispec.NodeUnstageVolumeRequest) (*csispec.NodeUnstageVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.called("unstage")
	for path, handle := range d.published {
		if handle == r.VolumeId {
			return nil, d.breaks("%s is unstaged while published on %s", handle, path)
		}
	}
	delete(d.staged, r.VolumeId)
	return &csispec.NodeUnstageVolumeResponse{}, nil
}

func (d *fakeDriver) NodePublishVolume(_ context.Context,
	r *csispec.NodePublishVolumeRequest) (*csispec.NodePublishVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.called("publish")
	d.last = r
	if err := d.fail; err != nil {
		d.fail = nil
		return nil, err
	}
	if d.staged[r.VolumeId] != r.StagingTargetPath {
		return nil, d.breaks("%s is published from %q, staged on %q", r.VolumeId, r.StagingTargetPath, d.staged[r.VolumeId])
	}
	if r.VolumeCapability.GetBlock() != nil {
		if err := os.WriteFile(r.TargetPath, nil, 0o600); err != nil {
			return nil, d.breaks("device: %v", err)
		}
	} else if err := os.Mkdir(r.TargetPath, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, d.breaks("target: %v", err)
	}
	d.published[r.TargetPath] = r.VolumeId
	return &csispec.NodePublishVolumeResponse{}, nil
}

func (d *fakeDriver) NodeUnpublishVolume(_ context.Context,
	r *csispec.NodeUnpublishVolumeRequest) (*csispec.NodeUnpublishVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.called("unpublish")
	if handle, ok := d.published[r.TargetPath]; ok && handle != r.VolumeId {
		return nil, d.breaks("%s is unpublished as %s", handle, r.VolumeId)
	}
	delete(d.published, r.TargetPath)
	if err := os.RemoveAll(r.TargetPath); err != nil {
		return nil, err
	}
	return &csispec.NodeUnpublishVolumeResponse{}, nil
}

func (d *fakeDriver) NodeExpandVolume(_ context.Context,
	r *csispec.NodeExpandVolumeRequest) (*csispec.NodeExpandVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.called("expand")
	d.expanded = r
	return &csispec.NodeExpandVolumeResponse{}, nil
}

func (d *fakeDriver) NodeGetVolumeStats(_ context.Context,
	r *csispec.NodeGetVolumeStatsRequest) (*csispec.NodeGetVolumeStatsResponse, error) {
	return &csispec.NodeGetVolumeStatsResponse{Usage: []*csispec.VolumeUsage{
		{Unit: csispec.VolumeUsage_BYTES, Total: 100, Used: 40, Available: 60},
		{Unit: csispec.VolumeUsage_INODES, Total: 10, Used: 4, Available: 6},
	}}, nil
}

// take returns the calls since the last time.
func (d *fakeDriver) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := d.calls
	d.calls = nil
	return calls
}

const driverName = "disk.example.com"

// rig is a plug-in with one driver.
type rig struct {
	*Plugin
	driver *fakeDriver
	client *fake.Clientset
	events *events.FakeRecorder
}

type noObjects struct{}

func (noObjects) ConfigMap(context.Context, string, string) (*v1.ConfigMap, error) {
	return nil, apierrors.NewNotFound(v1.Resource("configmaps"), "x")
}

func (noObjects) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	if name != "key" {
		return nil, apierrors.NewNotFound(v1.Resource("secrets"), name)
	}
	return &v1.Secret{Data: map[string][]byte{"password": []byte(namespace)}}, nil
}

func newRig(t *testing.T, spec storagev1.CSIDriverSpec) *rig {
	t.Helper()
	d := &fakeDriver{staged: map[string]string{}, published: map[string]string{},
		able: []csispec.NodeServiceCapability_RPC_Type{csispec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
			csispec.NodeServiceCapability_RPC_EXPAND_VOLUME, csispec.NodeServiceCapability_RPC_GET_VOLUME_STATS}}
	endpoint := serveDriver(t, d)
	client := fake.NewClientset(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: spec},
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node-uid"}})
	r := &rig{driver: d, client: client, events: events.NewFakeRecorder(10)}
	r.Plugin = r.start(t, t.TempDir(), endpoint)
	t.Cleanup(func() {
		for _, fault := range d.broken {
			t.Error(fault)
		}
	})
	return r
}

// start makes a plug-in, as a kubelet that starts does, and registers the driver.
func (r *rig) start(t *testing.T, root, endpoint string) *Plugin {
	t.Helper()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node-uid"}}
	objects := &NodeObjects{Client: r.client, Clock: clock.RealClock{}, Name: "n", Node: func() *v1.Node { return node }}
	p := &Plugin{Root: root, NodeName: "n", Client: r.client, Objects: noObjects{}, Clock: clock.RealClock{},
		Recorder: r.events, Tokens: volumes.NewTokens(r.client, clock.RealClock{}),
		Drivers: &Drivers{Publish: objects.Publish, Withdraw: objects.Withdraw}}
	if err := p.Restore(); err != nil {
		t.Fatal(err)
	}
	plugin := pluginwatcher.Plugin{Name: driverName, Endpoint: endpoint, Versions: []string{"1.0.0"}}
	if err := p.Drivers.Register(t.Context(), plugin); err != nil {
		t.Fatal(err)
	}
	return p
}

// restart replaces the plug-in by one that knows only what is on the disk.
func (r *rig) restart(t *testing.T) {
	t.Helper()
	r.Plugin = r.start(t, r.Root, r.Drivers.endpoints[driverName])
}

func serveDriver(t *testing.T, d csispec.NodeServer) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi") // short: the path of a socket is
	if err != nil {
		t.Fatal(err)
	}
	endpoint := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", endpoint)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	csispec.RegisterNodeServer(server, d)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
		_ = os.RemoveAll(dir)
	})
	return endpoint
}

func podOf(uid types.UID) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + string(uid), UID: uid},
		Spec: v1.PodSpec{ServiceAccountName: "sa"}}
}

// claimed is a persistent volume of the driver in a pod.
func claimed(uid types.UID, handle string) *volumes.Source {
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	return &volumes.Source{
		Pod: podOf(uid), Volume: &v1.Volume{Name: "data"},
		Claim: &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim"},
			Status: v1.PersistentVolumeClaimStatus{Capacity: size}},
		PV: &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + handle}, Spec: v1.PersistentVolumeSpec{
			Capacity: size, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			MountOptions: []string{"noatime"},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
				Driver: driverName, VolumeHandle: handle, FSType: "ext4", VolumeAttributes: map[string]string{"a": "b"},
				NodePublishSecretRef: &v1.SecretReference{Namespace: "storage", Name: "key"},
			}}}},
	}
}

func inline(uid types.UID) *volumes.Source {
	return &volumes.Source{Pod: podOf(uid), Volume: &v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{
		CSI: &v1.CSIVolumeSource{Driver: driverName, VolumeAttributes: map[string]string{"a": "b"}}}}}
}

func expectCalls(t *testing.T, d *fakeDriver, want ...string) {
	t.Helper()
	if got := d.take(); !slices.Equal(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
	}
}
