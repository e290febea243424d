package dra

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	testclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/kubelet/devices/devicetest"
	"quintet.dev/quintet/components/kubelet/pluginwatcher"
)

const driverName = "gpu.example.com"

func claim(name, uid string, pods ...types.UID) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	c.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{
		{Request: "a", Driver: driverName, Pool: "p", Device: "d0"},
		{Request: "b", Driver: driverName, Pool: "p", Device: "d1"},
	}
	for _, pod := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor,
			resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: string(pod), UID: pod})
	}
	return c
}

func pod(uid types.UID, claim string, requests ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: string(uid), UID: uid}}
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "mine", ResourceClaimName: &claim}}
	c := v1.Container{Name: "c"}
	for _, request := range requests {
		c.Resources.Claims = append(c.Resources.Claims, v1.ResourceClaim{Name: "mine", Request: request})
	}
	p.Spec.Containers = []v1.Container{c}
	return p
}

// rig is a manager with a driver that is registered.
type rig struct {
	*Manager
	driver *devicetest.Driver
	client *fake.Clientset
	clock  *testclock.FakeClock
}

func newRig(t *testing.T, file string, driver *devicetest.Driver, claims ...*resourceapi.ResourceClaim) *rig {
	t.Helper()
	client, clock := fake.NewClientset(), testclock.NewFakeClock(time.Now())
	for _, c := range claims {
		if err := client.Tracker().Add(c); err != nil {
			t.Fatal(err)
		}
	}
	if driver.Name == "" {
		driver.Name, driver.Socket = driverName, filepath.Join(t.TempDir(), "s")
		driver.Devices = func(c *drapb.Claim) []*drapb.Device {
			return []*drapb.Device{
				{RequestNames: []string{"a"}, PoolName: "p", DeviceName: "d0", CdiDeviceIds: []string{"example.com/gpu=0"}},
				{RequestNames: []string{"b/sub"}, PoolName: "p", DeviceName: "d1", CdiDeviceIds: []string{"example.com/gpu=1"}},
				{PoolName: "p", DeviceName: "all", CdiDeviceIds: []string{"example.com/gpu=all"}},
			}
		}
		if err := driver.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(driver.Stop)
	}
	r := &rig{driver: driver, client: client, clock: clock, Manager: &Manager{Client: client, File: file,
		Drivers: &Drivers{Client: client, Clock: clock, Node: "n"}}}
	if err := r.Open(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) register(t *testing.T) pluginwatcher.Plugin {
	t.Helper()
	info, _ := r.driver.GetInfo(t.Context(), nil)
	p := pluginwatcher.Plugin{Name: info.Name, Endpoint: info.Endpoint, Versions: info.SupportedVersions}
	if err := r.Drivers.Register(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return p
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want %s", err, want)
	}
}

func TestPrepareAndUnprepare(t *testing.T) {
	for _, beta := range []bool{false, true} {
		r := newRig(t, filepath.Join(t.TempDir(), "state"), &devicetest.Driver{Beta: beta}, claim("c", "u", "p1", "p2"))
		wantError(t, r.Prepare(t.Context(), pod("p1", "c")), "DRA driver gpu.example.com is not registered")
		if r.Uses("p1") {
			t.Error("a pod without driver has something to unprepare")
		}
		r.register(t)
		for _, uid := range []types.UID{"p1", "p1", "p2"} {
			if err := r.Prepare(t.Context(), pod(uid, "c")); err != nil {
				t.Fatal(err)
			}
		}
		for requests, want := range map[string]string{"a": "0 all", "b": "1 all", "": "0 1 all", "a b": "0 1 all"} {
			list := strings.Fields(requests)
			if requests == "" {
				list = []string{""}
			}
			p := pod("p1", "c", list...)
			ids, err := r.Container(p, &p.Spec.Containers[0])
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.ReplaceAll(strings.Join(ids, " "), "example.com/gpu=", ""); got != want {
				t.Errorf("requests %q get %s, want %s", requests, got, want)
			}
		}
		for _, uid := range []types.UID{"p1", "p1"} {
			if err := r.Unprepare(t.Context(), uid); err != nil {
				t.Fatal(err)
			}
		}
		if !r.driver.Prepared("u") {
			t.Error("unprepared while p2 uses it")
		}
		if err := r.Unprepare(t.Context(), "p2"); err != nil {
			t.Fatal(err)
		}
		if got := r.driver.Calls(); !reflect.DeepEqual(got, []string{"prepare u", "unprepare u"}) {
			t.Errorf("calls %v", got)
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	unallocated := claim("raw", "raw", "p")
	unallocated.Status.Allocation = nil
	r := newRig(t, filepath.Join(t.TempDir(), "state"), &devicetest.Driver{}, claim("c", "u", "p"),
		claim("other", "o", "someone"), unallocated)
	r.register(t)
	wantError(t, r.Prepare(t.Context(), pod("p", "none")), "prepare dynamic resources: fetch ResourceClaim none")
	wantError(t, r.Prepare(t.Context(), pod("p", "other")), "pod p (p) is not allowed to use ResourceClaim other (o)")
	wantError(t, r.Prepare(t.Context(), pod("p", "raw")), "not allocated")
	template := pod("p", "c")
	name := "t"
	template.Spec.ResourceClaims[0] = v1.PodResourceClaim{Name: "mine", ResourceClaimTemplateName: &name}
	wantError(t, r.Prepare(t.Context(), template), "ResourceClaim not created yet")
	made := "c"
	template.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "mine", ResourceClaimName: &made}}
	wantError(t, r.Prepare(t.Context(), template), "was not created for Pod")
	r.driver.Fail("out of order")
	wantError(t, r.Prepare(t.Context(), pod("p", "c")), "NodePrepareResources failed for ResourceClaim c: out of order")
	if !r.Uses("p") {
		t.Error("a claim that may be prepared is not unprepared")
	}
	wantError(t, r.Unprepare(t.Context(), "p"), "NodeUnprepareResources failed for ResourceClaim c: out of order")
	r.driver.Fail("")
	if err := r.Unprepare(t.Context(), "p"); err != nil || r.Uses("p") {
		t.Errorf("got %v", err)
	}
}

func TestCheck(t *testing.T) {
	claims := []*Claim{{UID: "u", Name: "c"}}
	wantError(t, check("Call", claims, map[string]*drapb.NodePrepareResourceResponse{}), "Call skipped 1 ResourceClaims")
	wantError(t, check("Call", claims, map[string]*drapb.NodePrepareResourceResponse{"x": {}}),
		"Call returned result for unknown claim UID x")
	if err := check("Call", claims, map[string]*drapb.NodePrepareResourceResponse{"u": nil}); err != nil {
		t.Error(err)
	}
}

func TestClaimsSurviveRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	first := newRig(t, file, &devicetest.Driver{}, claim("c", "u", "p"))
	first.register(t)
	if err := first.Prepare(t.Context(), pod("p", "c")); err != nil {
		t.Fatal(err)
	}
	// The claim was deleted and made again meanwhile: the old one is not unprepared yet.
	second := newRig(t, file, first.driver, claim("c", "new", "q"))
	second.register(t)
	wantError(t, second.Prepare(t.Context(), pod("q", "c")),
		"old ResourceClaim with same name c and different UID u still exists")
	p := pod("p", "c", "a")
	if ids, err := second.Container(p, &p.Spec.Containers[0]); err != nil || len(ids) != 2 {
		t.Errorf("got %v, %v", ids, err)
	}
	if err := second.Unprepare(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	if err := second.Prepare(t.Context(), pod("q", "c")); err != nil {
		t.Error(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(content), `"new"`, `"old"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	wantError(t, second.Open(), "corrupted")
}

func TestExtendedResourceClaim(t *testing.T) {
	r := newRig(t, filepath.Join(t.TempDir(), "state"), &devicetest.Driver{}, claim("x", "u", "p"))
	r.register(t)
	p := pod("p", "x")
	p.Spec.ResourceClaims = nil
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	p.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "x",
		RequestMappings: []v1.ContainerExtendedResourceRequest{
			{ContainerName: "c", ResourceName: "example.com/gpu", RequestName: "a"},
			{ContainerName: "other", ResourceName: "example.com/gpu", RequestName: "b"}}}
	if err := r.Prepare(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	ids, err := r.Container(p, &p.Spec.Containers[0])
	if want := []string{"example.com/gpu=0", "example.com/gpu=all"}; err != nil || !reflect.DeepEqual(ids, want) {
		t.Errorf("got %v, %v", ids, err)
	}
	// Their health is told under the name of the resource, of the requests that are the container's.
	health := r.Health(p)["c"]
	if len(health) != 1 || health[0].Name != "example.com/gpu" || len(health[0].Resources) != 2 {
		t.Errorf("health %+v", health)
	}
	p.Status.ExtendedResourceClaimStatus.RequestMappings[0].ContainerName = "nobody"
	if health := r.Health(p); len(health["c"]) != 0 {
		t.Errorf("health of devices that are another's: %+v", health)
	}
}

func TestSlicesOfDriversThatAreGone(t *testing.T) {
	r := newRig(t, filepath.Join(t.TempDir(), "state"), &devicetest.Driver{})
	p := r.register(t)
	add := func(name, driver string) {
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
		slice.Spec.Driver = driver
		if err := r.client.Tracker().Add(slice); err != nil {
			t.Fatal(err)
		}
	}
	wiped := func() (selectors []string) {
		for _, action := range r.client.Actions() {
			if action.GetVerb() == "delete-collection" {
				selectors = append(selectors, action.(interface {
					GetListRestrictions() clienttesting.ListRestrictions
				}).GetListRestrictions().Fields.String())
			}
		}
		return selectors
	}
	add("kept", driverName)
	add("gone", "gone.example.com")
	if err := r.Drivers.wipe(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if got := wiped(); len(got) != 1 || !strings.Contains(got[0], "spec.driver=gone.example.com") ||
		!strings.Contains(got[0], "spec.nodeName=n") {
		t.Errorf("removed %v", got)
	}
	r.client.ClearActions()
	r.Drivers.Deregister(t.Context(), p)
	r.clock.Step(wipingDelay - time.Second)
	r.register(t) // it came back in time
	r.Drivers.wait.Wait()
	if got := wiped(); len(got) != 0 {
		t.Errorf("removed %v of a driver that came back", got)
	}
	r.Drivers.Deregister(t.Context(), p)
	r.clock.Step(wipingDelay)
	r.Drivers.wait.Wait()
	if got := wiped(); len(got) == 0 {
		t.Error("nothing was removed of a driver that did not come back")
	}
	wantError(t, r.Drivers.Register(t.Context(), pluginwatcher.Plugin{Name: "x", Versions: []string{"1.0.0"}}),
		"none of the versions")
}
