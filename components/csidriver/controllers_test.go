package csidriver

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

func testClaim(name, size string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name),
			Annotations: map[string]string{storagehelpers.AnnSelectedNode: "node-1",
				storagehelpers.AnnStorageProvisioner: Name}},
		Spec: v1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("csi"),
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{
				v1.ResourceStorage: resource.MustParse(size)}}},
	}
}

func testClass() *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "csi"}, Provisioner: Name,
		ReclaimPolicy:     ptr.To(v1.PersistentVolumeReclaimDelete),
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}
}

// await waits until done says so.
func await(t *testing.T, what string, done func(ctx context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, done); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// TestLifeOfAVolume: a claim gets a volume, which is attached, grows, is detached and deleted.
func TestLifeOfAVolume(t *testing.T) {
	claim := testClaim("c", "1Mi")
	elsewhere := testClaim("elsewhere", "1Mi")
	elsewhere.Annotations[storagehelpers.AnnSelectedNode] = "node-2"
	client := fake.NewClientset(testClass(), claim, elsewhere)
	config := testConfig(t)
	config.mounts, config.Client = newFakeMounts(), client
	config.Provision, config.Attach, config.Resize = true, true, true
	run(t, config)
	volumes, claims := client.CoreV1().PersistentVolumes(), client.CoreV1().PersistentVolumeClaims("default")
	name := "pvc-" + string(claim.UID)
	var pv *v1.PersistentVolume
	await(t, "the volume", func(ctx context.Context) (_ bool, err error) {
		pv, err = volumes.Get(ctx, name, metav1.GetOptions{})
		return err == nil, ignoreGone(err)
	})
	if !config.owns(pv) || pv.Spec.ClaimRef.UID != claim.UID || pv.Spec.StorageClassName != "csi" ||
		pv.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete ||
		pv.Spec.Capacity.Storage().String() != "1Mi" {
		t.Errorf("%+v", pv)
	}
	bind(t, client, claim, pv)
	attachAndDetach(t, client, name)
	claim, _ = claims.Get(t.Context(), "c", metav1.GetOptions{})
	claim.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("2Mi")
	if _, err := claims.Update(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the larger volume", func(ctx context.Context) (bool, error) {
		pv, err := volumes.Get(ctx, name, metav1.GetOptions{})
		if err != nil || pv.Spec.Capacity.Storage().String() != "2Mi" {
			return false, err
		}
		claim, err := claims.Get(ctx, "c", metav1.GetOptions{})
		return err == nil && claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] ==
			v1.PersistentVolumeClaimNodeResizePending && len(claim.Status.Conditions) == 1 &&
			claim.Status.Conditions[0].Type == v1.PersistentVolumeClaimFileSystemResizePending, err
	})
	pv, _ = volumes.Get(t.Context(), name, metav1.GetOptions{})
	pv.Status.Phase = v1.VolumeReleased
	if _, err := volumes.UpdateStatus(t.Context(), pv, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the volume gone", func(ctx context.Context) (bool, error) {
		_, err := volumes.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreGone(err)
	})
	if all, err := volumes.List(t.Context(), metav1.ListOptions{}); err != nil || len(all.Items) != 0 {
		t.Errorf("volumes of another node's claims: %v, %v", all, err)
	}
}

// bind does the part of the controller of persistent volumes.
func bind(t *testing.T, client *fake.Clientset, claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
	t.Helper()
	claim = claim.DeepCopy()
	claim.Spec.VolumeName = pv.Name
	claim.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, Capacity: pv.Spec.Capacity}
	if _, err := client.CoreV1().PersistentVolumeClaims("default").Update(t.Context(), claim,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func attachAndDetach(t *testing.T, client *fake.Clientset, volume string) {
	t.Helper()
	attachments := client.StorageV1().VolumeAttachments()
	if _, err := attachments.Create(t.Context(), &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: Name, NodeName: "node-1",
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var attachment *storagev1.VolumeAttachment
	await(t, "attached", func(ctx context.Context) (_ bool, err error) {
		attachment, err = attachments.Get(ctx, "a", metav1.GetOptions{})
		return err == nil && attachment.Status.Attached, err
	})
	if len(attachment.Finalizers) != 1 || len(attachment.Status.AttachmentMetadata) == 0 {
		t.Errorf("%+v", attachment)
	}
	attachment.DeletionTimestamp = ptr.To(metav1.Now())
	if _, err := attachments.Update(t.Context(), attachment, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "detached", func(ctx context.Context) (bool, error) {
		a, err := attachments.Get(ctx, "a", metav1.GetOptions{})
		return apierrors.IsNotFound(err) || err == nil && len(a.Finalizers) == 0 && !a.Status.Attached, ignoreGone(err)
	})
}

func TestPlanAttachment(t *testing.T) {
	finalizer := NewConfig().attachFinalizer()
	if finalizer != "external-attacher/csi-quintet-dev" {
		t.Error(finalizer)
	}
	for _, test := range []struct {
		name                         string
		protected, attached, deleted bool
		want                         attachStep
	}{
		{"new", false, false, false, attachProtect},
		{"protected", true, false, false, attachVolume},
		{"attached", true, true, false, attachNothing},
		{"deleted", true, true, true, detachVolume},
		{"deleted before it was attached", true, false, true, detachVolume},
		{"deleted and another's", false, false, true, attachNothing},
	} {
		a := &storagev1.VolumeAttachment{Status: storagev1.VolumeAttachmentStatus{Attached: test.attached}}
		if test.protected {
			a.Finalizers = []string{finalizer}
		}
		if test.deleted {
			a.DeletionTimestamp = ptr.To(metav1.Now())
		}
		if got := planAttachment(a, finalizer); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestPlanResize(t *testing.T) {
	for _, test := range []struct {
		name              string
		asked, has, size  string
		state             v1.ClaimResourceStatus
		unbound, stranger bool
		want              resizeStep
	}{
		{name: "nothing asked", asked: "1Gi", has: "1Gi", size: "1Gi"},
		{name: "more asked", asked: "2Gi", has: "1Gi", size: "1Gi", want: resizeVolume},
		{name: "less asked", asked: "1Gi", has: "2Gi", size: "2Gi"},
		{name: "expanded", asked: "2Gi", has: "1Gi", size: "2Gi", want: resizePending},
		{name: "told", asked: "2Gi", has: "1Gi", size: "2Gi", state: v1.PersistentVolumeClaimNodeResizePending},
		{name: "the kubelet works", asked: "2Gi", has: "1Gi", size: "2Gi",
			state: v1.PersistentVolumeClaimNodeResizeInProgress},
		{name: "more asked meanwhile", asked: "3Gi", has: "1Gi", size: "2Gi",
			state: v1.PersistentVolumeClaimNodeResizePending, want: resizeVolume},
		{name: "ended in the middle", asked: "2Gi", has: "1Gi", size: "2Gi",
			state: v1.PersistentVolumeClaimControllerResizeInProgress, want: resizePending},
		{name: "not bound", asked: "2Gi", has: "1Gi", size: "1Gi", unbound: true},
		{name: "another's volume", asked: "2Gi", has: "1Gi", size: "1Gi", stranger: true},
	} {
		claim := testClaim("c", test.asked)
		claim.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound,
			Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse(test.has)}}
		if test.state != "" {
			claim.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{
				v1.ResourceStorage: test.state}
		}
		if test.unbound {
			claim.Status.Phase = v1.ClaimPending
		}
		pv := &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{ClaimRef: &v1.ObjectReference{UID: claim.UID},
			Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse(test.size)}}}
		if test.stranger {
			pv.Spec.ClaimRef.UID = "other"
		}
		if got := planResize(claim, pv); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for want, change := range map[string]func(*v1.PersistentVolumeClaim, *storagev1.StorageClass, *string){
		"volumeBindingMode must be": func(_ *v1.PersistentVolumeClaim, _ *storagev1.StorageClass, node *string) {
			*node = ""
		},
		"Selector": func(c *v1.PersistentVolumeClaim, _ *storagev1.StorageClass, _ *string) {
			c.Spec.Selector = &metav1.LabelSelector{}
		},
		"volume attributes class": func(c *v1.PersistentVolumeClaim, _ *storagev1.StorageClass, _ *string) {
			c.Spec.VolumeAttributesClassName = ptr.To("gold")
		},
		`"csi.storage.k8s.io/node-stage-secret-name"`: func(_ *v1.PersistentVolumeClaim, s *storagev1.StorageClass,
			_ *string) {
			s.Parameters = map[string]string{"csi.storage.k8s.io/node-stage-secret-name": "s", fsTypeParameter: "ext4", "x": "y"}
		},
	} {
		claim, class, node := testClaim("c", "1Gi"), testClass(), "node-1"
		if err := refusal(claim, class, node); err != nil {
			t.Fatal(err)
		}
		change(claim, class, &node)
		err := refusal(claim, class, node)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestCapabilitiesOfClaims(t *testing.T) {
	claim := testClaim("c", "1Gi")
	claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteOncePod, v1.ReadWriteMany}
	var modes []string
	for _, c := range capabilities(claim, testClass(), "ext4") {
		modes = append(modes, c.AccessMode.Mode.String())
		if c.GetMount().GetFsType() != "ext4" {
			t.Errorf("%v", c)
		}
	}
	if want := []string{"SINGLE_NODE_MULTI_WRITER", "SINGLE_NODE_SINGLE_WRITER", "MULTI_NODE_MULTI_WRITER"}; !slices.Equal(
		modes, want) {
		t.Errorf("%v, want %v", modes, want)
	}
	claim.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
	if c := capabilities(claim, testClass(), "")[0]; c.GetBlock() == nil {
		t.Errorf("%v", c)
	}
}

func TestFailuresAreNoNews(t *testing.T) {
	old := &storagev1.VolumeAttachment{}
	failed := old.DeepCopy()
	failed.Status.AttachError = &storagev1.VolumeError{Message: "no"}
	if attachmentChanged(old, failed) {
		t.Error("an error that was written brings the attachment back without a delay")
	}
	claim := testClaim("c", "1Gi")
	noted := claim.DeepCopy()
	noted.Status.Conditions = []v1.PersistentVolumeClaimCondition{{Type: v1.PersistentVolumeClaimResizing}}
	grown := claim.DeepCopy()
	grown.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("2Gi")
	if claimChanged(claim, noted) || !claimChanged(claim, grown) {
		t.Error("only what makes a claim grow is news")
	}
}
