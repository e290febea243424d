package csi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"quintet.dev/quintet/components/kubelet/volumes"
)

func noAttach() storagev1.CSIDriverSpec { return storagev1.CSIDriverSpec{AttachRequired: new(false)} }

// nothingLeft fails if anything of a volume is on the disk.
func (r *rig) nothingLeft(t *testing.T) {
	t.Helper()
	if len(r.driver.staged) > 0 || len(r.driver.published) > 0 {
		t.Errorf("the driver has %v staged and %v published", r.driver.staged, r.driver.published)
	}
	for _, pattern := range []string{
		"pods/*/volumes/kubernetes.io~csi/*", "pods/*/volumeDevices/kubernetes.io~csi/*",
		"plugins/kubernetes.io/csi/" + driverName + "/*", "plugins/kubernetes.io/csi/volumeDevices/*/*",
	} {
		found, err := filepath.Glob(filepath.Join(r.Root, pattern))
		if err != nil || len(found) > 0 {
			t.Errorf("left over: %q, %v", found, err)
		}
	}
	if names := r.VolumesInUse(); len(names) > 0 {
		t.Errorf("in use: %q", names)
	}
}

func TestVolumeOfAClaim(t *testing.T) {
	r := newRig(t, noAttach())
	for _, uid := range []types.UID{"one", "two"} {
		where, err := r.SetUp(t.Context(), claimed(uid, "h"))
		if err != nil {
			t.Fatal(err)
		}
		want := filepath.Join(r.Root, "pods", string(uid), "volumes", "kubernetes.io~csi", "pv-h", "mount")
		if where.Path != want || where.ReadOnly || where.Block {
			t.Errorf("it is at %+v", where)
		}
	}
	expectCalls(t, r.driver, "stage", "publish", "stage", "publish")
	last := r.driver.last
	mount := last.VolumeCapability.GetMount()
	if last.VolumeId != "h" || last.Secrets["password"] != "storage" || last.VolumeContext["a"] != "b" ||
		len(last.VolumeContext) != 1 || mount.GetFsType() != "ext4" || !slices.Equal(mount.GetMountFlags(),
		[]string{"noatime"}) ||
		last.VolumeCapability.AccessMode.Mode != csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER {
		t.Errorf("published with %v", last)
	}
	if _, err := r.SetUp(t.Context(), claimed("one", "h")); err != nil {
		t.Fatal(err)
	}
	expectCalls(t, r.driver) // it is there already
	for _, step := range []struct {
		uid   types.UID
		calls []string
	}{{"one", []string{"unpublish"}}, {"two", []string{"unpublish", "unstage"}}, {"three", nil}} {
		if err := r.TearDown(t.Context(), step.uid); err != nil {
			t.Fatal(err)
		}
		expectCalls(t, r.driver, step.calls...)
	}
	r.nothingLeft(t)
}

// What upstream's kubelet reads and writes: either can take over the other's node.
func TestRecordsOnDisk(t *testing.T) {
	r := newRig(t, noAttach())
	if _, err := r.SetUp(t.Context(), claimed("one", "h")); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]map[string]string{
		"pods/one/volumes/kubernetes.io~csi/pv-h/vol_data.json": {
			"specVolID": "pv-h", "volumeHandle": "h", "driverName": driverName, "nodeName": "n",
			"volumeLifecycleMode": "Persistent",
		},
		"plugins/kubernetes.io/csi/" + driverName + "/" +
			"aaa9402664f1a41f40ebbc52c9993eb66aeb366602958fdfaa283b71e64db123/vol_data.json": {
			"volumeHandle": "h", "driverName": driverName,
		},
	} {
		data, err := os.ReadFile(filepath.Join(r.Root, file))
		var got map[string]string
		if err == nil {
			err = json.Unmarshal(data, &got)
		}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, %v", file, got, err)
		}
	}
}

func TestUnpublishAfterRestart(t *testing.T) {
	r := newRig(t, storagev1.CSIDriverSpec{})
	attach(t, r, "h")
	source := claimed("one", "h")
	if _, err := r.SetUp(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	r.restart(t)
	if names := r.VolumesInUse(); len(names) != 1 || names[0] != "kubernetes.io/csi/"+driverName+"^h" {
		t.Errorf("in use: %q", names)
	}
	r.driver.take()
	if err := r.TearDown(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	expectCalls(t, r.driver, "unpublish", "unstage")
	r.nothingLeft(t)
}

func attach(t *testing.T, r *rig, handle string) {
	t.Helper()
	_, err := r.client.StorageV1().VolumeAttachments().Create(t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: attachmentName(handle, driverName, "n")},
		Status:     storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"dev": "/dev/x"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAttachment(t *testing.T) {
	r := newRig(t, storagev1.CSIDriverSpec{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for len(r.VolumesInUse()) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel() // the pod is deleted while it waits
	}()
	_, err := r.SetUp(ctx, claimed("one", "h"))
	var failure *volumes.Failure
	if !errors.As(err, &failure) || failure.Step != volumes.StepAttach || !errors.Is(err, context.Canceled) {
		t.Errorf("without attachment: %v", err)
	}
	if names := r.VolumesInUse(); len(names) != 0 {
		t.Errorf("in use without attachment: %q", names)
	}
	attachments := r.client.StorageV1().VolumeAttachments()
	pending := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: attachmentName("h", driverName, "n")}}
	pending.Status.AttachError = &storagev1.VolumeError{Message: "no room"}
	if _, err := attachments.Create(t.Context(), pending, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.SetUp(t.Context(), claimed("one", "h")); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("failed attachment: %v", err)
	}
	pending.Status.AttachError = nil
	if _, err := attachments.Update(t.Context(), pending, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	set := make(chan error, 1)
	go func() {
		_, err := r.SetUp(t.Context(), claimed("one", "h"))
		set <- err
	}()
	eventually(t, "the volume is in use", func() bool { return len(r.VolumesInUse()) == 1 })
	expectCalls(t, r.driver)
	pending.Status = storagev1.VolumeAttachmentStatus{Attached: true,
		AttachmentMetadata: map[string]string{"dev": "/dev/x"}}
	if _, err := attachments.Update(t.Context(), pending, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := <-set; err != nil {
		t.Fatal(err)
	}
	if got := r.driver.last.PublishContext["dev"]; got != "/dev/x" {
		t.Errorf("publish context %q", got)
	}
}

func TestInlineVolume(t *testing.T) {
	spec := noAttach()
	r := newRig(t, spec)
	_, err := r.SetUp(t.Context(), inline("one"))
	if err == nil || !strings.Contains(err.Error(),
		`volume mode "Ephemeral" not supported by driver disk.example.com (only supports ["Persistent"])`) {
		t.Errorf("driver of persistent volumes: %v", err)
	}
	spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}
	spec.PodInfoOnMount = new(true)
	r = newRig(t, spec)
	if _, err := r.SetUp(t.Context(), inline("one")); err != nil {
		t.Fatal(err)
	}
	expectCalls(t, r.driver, "publish")
	want := map[string]string{
		"a": "b", "csi.storage.k8s.io/pod.name": "pod-one", "csi.storage.k8s.io/pod.namespace": "ns",
		"csi.storage.k8s.io/pod.uid": "one", "csi.storage.k8s.io/serviceAccount.name": "sa",
		"csi.storage.k8s.io/ephemeral": "true",
	}
	if got := r.driver.last; fmt.Sprint(got.VolumeContext) != fmt.Sprint(want) || !strings.HasPrefix(got.VolumeId,
		"csi-") {
		t.Errorf("published with %v", got)
	}
	r.driver.take()
	if err := r.TearDown(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	expectCalls(t, r.driver, "unpublish")
	r.nothingLeft(t)
}

func TestTokensAndRepublish(t *testing.T) {
	for _, inSecrets := range []bool{false, true} {
		spec := noAttach()
		spec.TokenRequests = []storagev1.TokenRequest{{Audience: "vault"}}
		spec.RequiresRepublish, spec.ServiceAccountTokenInSecrets = new(true), &inSecrets
		r := newRig(t, spec)
		r.client.PrependReactor("create", "serviceaccounts",
			func(action clienttesting.Action) (bool, runtime.Object, error) {
				request := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenRequest).DeepCopy()
				request.Status = authenticationv1.TokenRequestStatus{Token: "t-" + request.Spec.Audiences[0],
					ExpirationTimestamp: metav1.NewTime(time.Now().Add(time.Hour))}
				return true, request, nil
			})
		for range 2 {
			if _, err := r.SetUp(t.Context(), claimed("one", "h")); err != nil {
				t.Fatal(err)
			}
			from := r.driver.last.VolumeContext
			if inSecrets {
				from = r.driver.last.Secrets
			}
			var tokens map[string]struct{ Token string }
			if err := json.Unmarshal([]byte(from[tokensKey]), &tokens); err != nil || tokens["vault"].Token != "t-vault" {
				t.Errorf("in secrets: %v: %v, %v", inSecrets, from, err)
			}
		}
		expectCalls(t, r.driver, "stage", "publish", "publish")
	}
}

func TestBlockVolume(t *testing.T) {
	r := newRig(t, noAttach())
	source := func(uid types.UID) *volumes.Source {
		s := claimed(uid, "h")
		s.Block, s.ReadOnly = true, true
		return s
	}
	for _, uid := range []types.UID{"one", "two"} {
		where, err := r.SetUpDevice(t.Context(), source(uid))
		if err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(r.Root, "pods", string(uid), "volumeDevices", "kubernetes.io~csi", "pv-h")
		if target, err := os.Readlink(link); err != nil || target != where.Path || !where.Block || !where.ReadOnly {
			t.Errorf("%+v, linked to %q, %v", where, target, err)
		}
	}
	if r.driver.last.VolumeCapability.GetBlock() == nil || !r.driver.last.Readonly {
		t.Errorf("published with %v", r.driver.last)
	}
	r.driver.take()
	r.restart(t)
	for _, step := range []struct {
		uid   types.UID
		calls []string
	}{{"one", []string{"unpublish"}}, {"two", []string{"unpublish", "unstage"}}} {
		if err := r.TearDown(t.Context(), step.uid); err != nil {
			t.Fatal(err)
		}
		expectCalls(t, r.driver, step.calls...)
	}
	r.nothingLeft(t)
}

// A pod that goes before its volume could be staged leaves nothing, so that the volume is detached.
func TestBlockVolumeThatFailsToStage(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		r := newRig(t, noAttach())
		s := claimed("one", "h")
		s.Block = true
		r.driver.failStage = errors.New("no such device")
		if _, err := r.SetUpDevice(t.Context(), s); err == nil || !strings.Contains(err.Error(), "no such device") {
			t.Fatal(err)
		}
		if restarted {
			r.restart(t)
		}
		if err := r.TearDown(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		expectCalls(t, r.driver, "stage", "unpublish", "unstage")
		r.nothingLeft(t)
	}
}

func TestFSGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	for name, test := range map[string]struct {
		policy storagev1.FSGroupPolicy
		fsType string
		mode   v1.PersistentVolumeAccessMode
		able   bool
		owned  bool
	}{
		"default":                {"", "ext4", v1.ReadWriteOnce, false, true},
		"one pod":                {"", "ext4", v1.ReadWriteOncePod, false, true},
		"no type":                {"", "", v1.ReadWriteOnce, false, false},
		"many nodes":             {"", "ext4", v1.ReadWriteMany, false, false},
		"file":                   {storagev1.FileFSGroupPolicy, "", v1.ReadWriteMany, false, true},
		"none":                   {storagev1.NoneFSGroupPolicy, "ext4", v1.ReadWriteOnce, false, false},
		"the driver's own doing": {storagev1.FileFSGroupPolicy, "ext4", v1.ReadWriteOnce, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			spec := noAttach()
			if test.policy != "" {
				spec.FSGroupPolicy = &test.policy
			}
			r := newRig(t, spec)
			if test.able {
				r.driver.able = append(r.driver.able, csispec.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP)
			}
			s := claimed("one", "h")
			s.Pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(4242))}
			s.PV.Spec.CSI.FSType, s.PV.Spec.AccessModes = test.fsType, []v1.PersistentVolumeAccessMode{test.mode}
			where, err := r.SetUp(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(where.Path)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Sys().(*syscall.Stat_t).Gid == 4242; got != test.owned {
				t.Errorf("owned by the group: %v", got)
			}
			if got := r.driver.last.VolumeCapability.GetMount().VolumeMountGroup == "4242"; got != test.able {
				t.Errorf("the driver was told the group: %v", got)
			}
		})
	}
}

func TestExpansion(t *testing.T) {
	r := newRig(t, noAttach())
	s := claimed("one", "h")
	s.Claim.Status.Conditions = []v1.PersistentVolumeClaimCondition{
		{Type: v1.PersistentVolumeClaimFileSystemResizePending, Status: v1.ConditionTrue},
	}
	if _, err := r.client.CoreV1().PersistentVolumeClaims("ns").Create(t.Context(), s.Claim,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.SetUp(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	expectCalls(t, r.driver, "stage", "publish")
	s.PV.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("2Gi")}
	where, err := r.SetUp(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	expectCalls(t, r.driver, "expand")
	if got := r.driver.expanded; got.VolumePath != where.Path || got.CapacityRange.RequiredBytes != 2<<30 ||
		got.StagingTargetPath == "" {
		t.Errorf("expanded by %v", got)
	}
	claim, err := r.client.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "claim", metav1.GetOptions{})
	if size := claim.Status.Capacity[v1.ResourceStorage]; err != nil || size.String() != "2Gi" ||
		len(claim.Status.Conditions) != 0 {
		t.Errorf("the claim has %+v, %v", claim.Status, err)
	}
	if event := <-r.events.Events; event != `Normal FileSystemResizeSuccessful MountVolume.NodeExpandVolume succeeded for volume "pv-h" n` {
		t.Error(event)
	}
}

func TestUsage(t *testing.T) {
	r := newRig(t, noAttach())
	s := claimed("one", "h")
	where, err := r.SetUp(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	usage, known, err := r.Usage(t.Context(), s, where)
	want := volumes.Usage{Capacity: 100, Available: 60, Used: 40, Inodes: 10, InodesFree: 6, InodesUsed: 4}
	if err != nil || !known || usage != want {
		t.Errorf("%+v, %v, %v", usage, known, err)
	}
	r.driver.able = nil
	if _, known, err := r.Usage(t.Context(), s, where); known || err != nil {
		t.Errorf("a driver without figures: %v, %v", known, err)
	}
}

func TestDriverThatIsNotRegistered(t *testing.T) {
	r := newRig(t, noAttach())
	r.Drivers.endpoints = nil
	_, err := r.SetUp(t.Context(), claimed("one", "h"))
	var failure *volumes.Failure
	if !errors.As(err, &failure) || failure.Step != volumes.StepStage || failure.Err.Error() !=
		"kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name disk.example.com not "+
			"found in the list of registered CSI drivers" {
		t.Errorf("%v", err)
	}
}

func TestNodeObjects(t *testing.T) {
	r := newRig(t, noAttach())
	object, err := r.client.StorageV1().CSINodes().Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(object.Spec.Drivers) != 1 || len(object.OwnerReferences) != 1 || object.OwnerReferences[0].UID != "node-uid" {
		t.Fatalf("%+v", object)
	}
	if d := object.Spec.Drivers[0]; d.Name != driverName || d.NodeID != "id-of-node" || *d.Allocatable.Count != 5 ||
		!slices.Equal(d.TopologyKeys, []string{"zone.example.com"}) {
		t.Errorf("%+v", d)
	}
	node, err := r.client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil || node.Labels["zone.example.com"] != "z1" ||
		node.Annotations[nodeIDs] != `{"disk.example.com":"id-of-node"}` {
		t.Errorf("%v, %v, %v", node.Labels, node.Annotations, err)
	}
	if err := r.Drivers.Withdraw(t.Context(), driverName); err != nil {
		t.Fatal(err)
	}
	object, err = r.client.StorageV1().CSINodes().Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil || len(object.Spec.Drivers) != 0 {
		t.Errorf("after it was withdrawn: %+v, %v", object, err)
	}
	node, err = r.client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	if _, left := node.Annotations[nodeIDs]; err != nil || left {
		t.Errorf("annotations: %v, %v", node.Annotations, err)
	}
}

// Whatever pods come and go, whenever the kubelet restarts and the driver fails: the driver is called as CSI allows,
// and nothing is left when all pods are gone.
func TestNothingIsLeft(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			r := newRig(t, storagev1.CSIDriverSpec{})
			for _, handle := range []string{"h0", "h1"} {
				attach(t, r, handle)
			}
			uids := []types.UID{"a", "b", "c"}
			for range 30 {
				uid, handle := uids[random.IntN(len(uids))], fmt.Sprintf("h%d", random.IntN(2))
				s := claimed(uid, handle)
				switch random.IntN(6) {
				case 0, 1:
					if random.IntN(3) == 0 {
						r.driver.fail = status.Error(codes.Internal, "no luck")
					}
					// A handle is of one kind: h0 a file system, h1 a device.
					if s.Block = handle == "h1"; s.Block {
						_, _ = r.SetUpDevice(t.Context(), s)
					} else {
						_, _ = r.SetUp(t.Context(), s)
					}
				case 2, 3:
					if err := r.TearDown(t.Context(), uid); err != nil {
						t.Fatal(err)
					}
				case 4:
					r.restart(t)
				case 5:
					r.driver.fail = nil
				}
			}
			for _, uid := range uids {
				if err := r.TearDown(t.Context(), uid); err != nil {
					t.Fatal(err)
				}
			}
			r.nothingLeft(t)
		})
	}
}
