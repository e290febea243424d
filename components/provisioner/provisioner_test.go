package provisioner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/internal/watchtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func class(policy v1.PersistentVolumeReclaimPolicy) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "standard"}, Provisioner: Name,
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer), ReclaimPolicy: &policy}
}

func claim(name, node string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Annotations: map[string]string{
			storagehelpers.AnnStorageProvisioner: Name, storagehelpers.AnnSelectedNode: node}},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("standard"), AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}}},
	}
}

func node(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: "host-" + name}}}
}

// start runs a provisioner until stop is called, at the end of the test at the latest.
func start(t *testing.T, client *fake.Clientset, dir string, change func(*Config)) (stop func()) {
	t.Helper()
	config := NewConfig()
	config.Client, config.VolumeDir, config.HostnameOverride = client, dir, "n"
	if change != nil {
		change(config)
	}
	p, err := New(*config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func fakeClient(objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(objects...)
	watchtest.Copy(client)
	return client
}

func eventually(t *testing.T, ok func() (bool, any)) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		done, state := ok()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("never came to pass; last seen: %v", state)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func volumes(t *testing.T, client *fake.Clientset) []v1.PersistentVolume {
	t.Helper()
	all, err := client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return all.Items
}

func saw(t *testing.T, client *fake.Clientset, reason, text string) {
	t.Helper()
	eventually(t, func() (bool, any) {
		all, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		var seen []string
		for i := range all.Items {
			seen = append(seen, all.Items[i].Reason+" "+all.Items[i].Message)
		}
		return err == nil && strings.Contains(strings.Join(seen, "\n"), reason+" "+text), seen
	})
}

// TestProvisionAndRemove makes a volume for a claim of this node, and removes it once it is released.
func TestProvisionAndRemove(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "volumes")
	client := fakeClient(class(v1.PersistentVolumeReclaimDelete), node("n"), node("m"), claim("a", "n"), claim("b", "m"))
	start(t, client, dir, nil)
	eventually(t, func() (bool, any) { all := volumes(t, client); return len(all) == 1, all })
	saw(t, client, "Provisioning", `External provisioner is provisioning volume for claim "ns/a"`)
	saw(t, client, "ProvisioningSucceeded", "Successfully provisioned volume pvc-a")
	volume := volumes(t, client)[0]
	capacity := volume.Spec.Capacity[v1.ResourceStorage]
	term := volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
	if volume.Name != "pvc-a" || volume.Spec.Local.Path != filepath.Join(dir, "pvc-a") ||
		volume.Spec.ClaimRef.UID != "a" ||
		capacity.String() != "1Gi" || term.Key != v1.LabelHostname || term.Values[0] != "host-n" {
		t.Errorf("volume %+v", volume)
	}
	info, err := os.Stat(volume.Spec.Local.Path)
	if err != nil || info.Mode().Perm() != 0o777 {
		t.Fatalf("directory: %v %v", info, err)
	}
	if err := os.WriteFile(filepath.Join(volume.Spec.Local.Path, "data"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	volume.Status.Phase = v1.VolumeReleased
	if _, err := client.CoreV1().PersistentVolumes().UpdateStatus(t.Context(), &volume,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() (bool, any) { all := volumes(t, client); return len(all) == 0, all })
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left over: %v %v", entries, err)
	}
}

func TestRetain(t *testing.T) {
	dir := t.TempDir()
	client := fakeClient(class(v1.PersistentVolumeReclaimRetain), node("n"), claim("a", "n"))
	stop := start(t, client, dir, nil)
	eventually(t, func() (bool, any) { all := volumes(t, client); return len(all) == 1, all })
	saw(t, client, "ProvisioningSucceeded", "")
	stop()
	volume := volumes(t, client)[0]
	volume.Status.Phase = v1.VolumeReleased
	if len(volume.Finalizers) != 0 || planVolume(&volume, "n") != leave {
		t.Errorf("a retained volume: %+v", volume)
	}
}

// TestRestart starts where another run ended in the middle: with a directory and no volume.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	d := directories{dir}
	for _, name := range []string{"pvc-a", "pvc-gone", "pvc-made"} {
		if err := d.create(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(d.path("pvc-retained"), 0o755); err != nil {
		t.Fatal(err)
	}
	made := newVolume(claim("made", "n"), class(v1.PersistentVolumeReclaimDelete), node("n"), d.path("pvc-made"))
	client := fakeClient(class(v1.PersistentVolumeReclaimDelete), node("n"), claim("a", "n"), made)
	start(t, client, dir, nil)
	eventually(t, func() (bool, any) {
		entries, err := os.ReadDir(dir)
		return err == nil && len(entries) == 3 && len(volumes(t, client)) == 2, fmt.Sprint(entries, err)
	})
	for _, name := range []string{"pvc-a", "pvc-made", "pvc-retained"} {
		if _, err := os.Stat(d.path(name)); err != nil {
			t.Error(err)
		}
	}
}

func TestAllNodes(t *testing.T) {
	client := fakeClient(class(v1.PersistentVolumeReclaimDelete), node("n"), node("m"), claim("a", "n"), claim("b", "m"))
	start(t, client, t.TempDir(), func(c *Config) { c.AllNodes, c.HostnameOverride = true, "" })
	eventually(t, func() (bool, any) { all := volumes(t, client); return len(all) == 2, all })
}

// TestNodeGone gives a claim back to the scheduler whose node is gone.
func TestNodeGone(t *testing.T) {
	client := fakeClient(class(v1.PersistentVolumeReclaimDelete), claim("a", "n"))
	start(t, client, t.TempDir(), nil)
	saw(t, client, "ProvisioningFailed",
		`failed to provision volume with StorageClass "standard": selected node "n" not found`)
	eventually(t, func() (bool, any) {
		c, err := client.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "a", metav1.GetOptions{})
		return err == nil && c.Annotations[storagehelpers.AnnSelectedNode] == "", fmt.Sprint(c, err)
	})
}

func TestRefusals(t *testing.T) {
	none := func(*v1.PersistentVolumeClaim, *storagev1.StorageClass) {}
	for want, change := range map[string]func(*v1.PersistentVolumeClaim, *storagev1.StorageClass){
		"": none,
		"access mode ReadWriteMany": func(c *v1.PersistentVolumeClaim, _ *storagev1.StorageClass) {
			c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
		},
		"volume mode Block": func(c *v1.PersistentVolumeClaim, _ *storagev1.StorageClass) {
			c.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
		},
		"claim.Spec.Selector": func(c *v1.PersistentVolumeClaim, _ *storagev1.StorageClass) {
			c.Spec.Selector = &metav1.LabelSelector{}
		},
		"a data source": func(c *v1.PersistentVolumeClaim, _ *storagev1.StorageClass) {
			c.Spec.DataSource = &v1.TypedLocalObjectReference{}
		},
		"a volume attributes class": func(c *v1.PersistentVolumeClaim, _ *storagev1.StorageClass) {
			c.Spec.VolumeAttributesClassName = ptr.To("fast")
		},
		`storage class "standard": parameter "x"`: func(_ *v1.PersistentVolumeClaim, s *storagev1.StorageClass) {
			s.Parameters = map[string]string{"x": "y"}
		},
	} {
		c, s := claim("a", "n"), class(v1.PersistentVolumeReclaimDelete)
		change(c, s)
		if got := refusal(c, s); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%q, want %q", got, want)
		}
	}
	immediate := class(v1.PersistentVolumeReclaimDelete)
	immediate.VolumeBindingMode = ptr.To(storagev1.VolumeBindingImmediate)
	client := fakeClient(immediate, node("n"), claim("a", ""))
	start(t, client, t.TempDir(), nil)
	saw(t, client, "ProvisioningFailed",
		`failed to provision volume with StorageClass "standard": volumeBindingMode must be`)
}

func TestPlanVolume(t *testing.T) {
	volume := func(changes ...func(*v1.PersistentVolume)) *v1.PersistentVolume {
		v := newVolume(claim("a", "n"), class(v1.PersistentVolumeReclaimDelete), node("n"), "/x/pvc-a")
		for _, change := range changes {
			change(v)
		}
		return v
	}
	released := func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeReleased }
	deleted := func(v *v1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{} }
	bare := func(v *v1.PersistentVolume) { v.Finalizers = nil }
	retained := func(v *v1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
	}
	foreign := func(v *v1.PersistentVolume) { v.Annotations[storagehelpers.AnnDynamicallyProvisioned] = "other" }
	free := func(v *v1.PersistentVolume) { v.Spec.ClaimRef = nil }
	for name, c := range map[string]struct {
		volume *v1.PersistentVolume
		node   string
		want   step
	}{
		"bound": {volume(), "n", leave}, "released": {volume(released), "n", remove},
		"on another node": {volume(released), "m", leave}, "on any node": {volume(released), "", remove},
		"another's": {volume(released, foreign), "n", leave}, "retained from now on": {volume(released, retained), "n",
			unprotect},
		"retained": {volume(released, retained, bare), "n", leave}, "unprotected": {volume(bare), "n", protect},
		"deleted while bound": {volume(deleted), "n", leave}, "deleted and released": {volume(deleted, released), "n",
			remove},
		"deleted and free": {volume(deleted, free), "n", remove}, "deleted already": {volume(deleted, released, bare), "n",
			leave},
	} {
		if got := planVolume(c.volume, c.node); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestRemoveElsewhere(t *testing.T) {
	root := t.TempDir()
	volume := newVolume(claim("a", "n"), class(v1.PersistentVolumeReclaimDelete), node("n"), root)
	if err := (directories{root}).remove(volume); err == nil {
		t.Error("a volume that points elsewhere was removed")
	}
	if _, err := os.Stat(root); err != nil {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no kubeconfig": func(c *Config) { c.Client = nil },
		"relative":      func(c *Config) { c.VolumeDir = "volumes" },
		"one and all":   func(c *Config) { c.AllNodes, c.HostnameOverride = true, "n" },
	} {
		config := NewConfig()
		config.Client = fakeClient()
		change(config)
		if _, err := New(*config); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
