package devicedriver

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	drahealthapi "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	"k8s.io/utils/ptr"
)

func TestConfig(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"--node-name":     func(c *Config) { c.NodeName = "" },
		"--driver-name":   func(c *Config) { c.DriverName = "Not A Name" },
		"--resource-name": func(c *Config) { c.ResourceName = "cpu" },
		"--devices":       func(c *Config) { c.Devices = -1 },
		"--claim-devices": func(c *Config) { c.ClaimDevices = 129 },
		"--numa-nodes":    func(c *Config) { c.NUMANodes = -1 },
		"--cdi-dir":       func(c *Config) { c.CDIDir = "cdi" },
	} {
		c := NewConfig()
		c.NodeName, c.Client = "n", fake.NewClientset()
		c.Root = t.TempDir()
		change(c)
		if _, err := New(*c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that names %s", err, want)
		}
	}
}

// newClaims returns what prepares claims in directories of the test.
func newClaims(t *testing.T) *claims {
	c := NewConfig()
	c.NodeName, c.Root, c.CDIDir = "n", t.TempDir(), t.TempDir()
	return &claims{c}
}

func claimOf(uid string, admin bool, devices ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c-" + uid, UID: types.UID(uid)}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for _, device := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: Name, Pool: "n", Device: device,
				AdminAccess: ptr.To(admin)})
	}
	return c
}

func configure(c *resourceapi.ResourceClaim, parameters string, requests ...string) *resourceapi.ResourceClaim {
	c.Status.Allocation.Devices.Config = append(c.Status.Allocation.Devices.Config,
		resourceapi.DeviceAllocationConfiguration{Requests: requests, DeviceConfiguration: resourceapi.DeviceConfiguration{
			Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: Name,
				Parameters: runtime.RawExtension{Raw: []byte(parameters)}}}})
	return c
}

// A claim is prepared and unprepared any number of times, by any process, and leaves nothing.
func TestPrepareIsIdempotent(t *testing.T) {
	c := newClaims(t)
	claim := configure(claimOf("u1", false, "accelerator-0", "accelerator-1"),
		`{"apiVersion":"device.quintet.dev/v1","kind":"Parameters","env":{"MODE":"fast"}}`)
	for range 3 {
		devices, err := (&claims{c.config}).prepare(claim)
		if err != nil || len(devices) != 2 || devices[1].CDIDeviceIDs[0] != "device.quintet.dev/claim=u1-1" {
			t.Fatalf("%v, %v", devices, err)
		}
	}
	content, err := os.ReadFile(filepath.Join(c.config.CDIDir, c.spec("u1")))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"QUINTET_CLAIM_ACCELERATOR_1=r"`, `"MODE=fast"`, `"/dev/quintet/accelerator-0"`} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the specification lacks %s:\n%s", want, content)
		}
	}
	for range 3 {
		if err := (&claims{c.config}).unprepare("u1"); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{c.config.CDIDir, c.dir()} {
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("left in %s: %v", dir, left)
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	c := newClaims(t)
	if _, err := c.prepare(claimOf("u1", false, "accelerator-0")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.prepare(claimOf("u2", false, "accelerator-0")); err == nil || !strings.Contains(err.Error(),
		"ns/c-u1") {
		t.Errorf("a device of another claim: %v", err)
	}
	if _, err := c.prepare(claimOf("u3", true, "accelerator-0")); err != nil {
		t.Errorf("admin access: %v", err)
	}
	for _, parameters := range []string{`{`, `{"apiVersion":"device.quintet.dev/v1","kind":"Other"}`,
		`{"apiVersion":"device.quintet.dev/v1","kind":"Parameters","colour":"red"}`} {
		if _, err := c.prepare(configure(claimOf("u4", false, "accelerator-1"), parameters)); err == nil {
			t.Errorf("parameters %s were taken", parameters)
		}
		other := configure(claimOf("u5", false, "accelerator-1"), parameters, "another")
		if _, err := c.prepare(other); err != nil {
			t.Errorf("parameters of another request: %v", err)
		}
	}
}

// A running driver is followed as the kubelet does: by its sockets, and by the ResourceSlice.
func TestRun(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "1",
		Annotations: map[string]string{UnhealthyAnnotation: "device-1,accelerator-0=too hot"}}}
	claim := claimOf("u1", false, "accelerator-1")
	client := fake.NewClientset(node, claim)
	c := NewConfig()
	dir, err := os.MkdirTemp("", "dd") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c.NodeName, c.Client, c.Root, c.CDIDir, c.KubeletDir = "n", client, filepath.Join(dir, "r"), dir, dir
	d, err := New(*c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	dial := func(path string) *grpc.ClientConn {
		conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	wait := grpc.WaitForReady(true)
	devices, err := pluginapi.NewDevicePluginClient(dial(filepath.Join(d.config.pluginDir(c.ResourceName),
		"device-plugin.sock"))).ListAndWatch(ctx, &pluginapi.Empty{}, wait)
	if err != nil {
		t.Fatal(err)
	}
	list, err := devices.Recv()
	if err != nil || len(list.Devices) != 4 || list.Devices[1].Health != pluginapi.Unhealthy ||
		list.Devices[0].Health != pluginapi.Healthy {
		t.Fatalf("devices %v, %v", list, err)
	}
	dra := dial(filepath.Join(d.config.pluginDir(Name), "dra.sock"))
	health, err := drahealthapi.NewDRAResourceHealthClient(dra).NodeWatchResources(ctx,
		&drahealthapi.NodeWatchResourcesRequest{}, wait)
	if err != nil {
		t.Fatal(err)
	}
	told, err := health.Recv()
	if err != nil || len(told.Devices) != 4 || told.Devices[0].Health != drahealthapi.HealthStatus_UNHEALTHY ||
		told.Devices[0].Message != "too hot" {
		t.Fatalf("health %v, %v", told, err)
	}
	response, err := drapb.NewDRAPluginClient(dra).NodePrepareResources(ctx, &drapb.NodePrepareResourcesRequest{
		Claims: []*drapb.Claim{{Namespace: "ns", Name: claim.Name, Uid: "u1"}}}, wait)
	if err != nil || len(response.Claims["u1"].GetDevices()) != 1 {
		t.Fatalf("prepared %v, %v", response, err)
	}
	delete(node.Annotations, UnhealthyAnnotation)
	if _, err := client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for list.Devices[1].Health != pluginapi.Healthy {
		if list, err = devices.Recv(); err != nil {
			t.Fatal(err)
		}
	}
}
