package volumes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// bound is a claim and a persistent volume that are bound to each other.
func bound(source v1.PersistentVolumeSource) (*v1.PersistentVolumeClaim, *v1.PersistentVolume) {
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim", UID: "claim-uid"},
		Spec: v1.PersistentVolumeClaimSpec{VolumeName: "pv"}, Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound}}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{
		PersistentVolumeSource: source, ClaimRef: &v1.ObjectReference{UID: "claim-uid"}}}
	return claim, pv
}

// claiming is a pod with a container that mounts a claimed volume.
func claiming() *v1.Pod {
	pod := podWith(v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}})
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
	return pod
}

func TestClaimsThatAreNotReady(t *testing.T) {
	for want, change := range map[string]func(*v1.Pod, *v1.PersistentVolumeClaim, *v1.PersistentVolume){
		`failed to fetch PVC from API server: persistentvolumeclaims "other" not found`: func(p *v1.Pod,
			_ *v1.PersistentVolumeClaim,
			_ *v1.PersistentVolume) {
			p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "other"
		},
		"PVC is being deleted": func(_ *v1.Pod, c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
			c.DeletionTimestamp, c.Finalizers = &metav1.Time{}, []string{"kubernetes.io/pvc-protection"}
		},
		"PVC is not bound": func(_ *v1.Pod, c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
			c.Status.Phase = v1.ClaimPending
		},
		"PVC has empty pvc.Spec.VolumeName": func(_ *v1.Pod, c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
			c.Spec.VolumeName = ""
		},
		`failed to fetch PV gone from API server: persistentvolumes "gone" not found`: func(_ *v1.Pod,
			c *v1.PersistentVolumeClaim,
			_ *v1.PersistentVolume) {
			c.Spec.VolumeName = "gone"
		},
		"found PV object pv but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim": func(_ *v1.Pod,
			_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
			pv.Spec.ClaimRef = nil
		},
		"found PV object pv but its pv.Spec.ClaimRef.UID x does not point to claim.UID claim-uid": func(_ *v1.Pod,
			_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
			pv.Spec.ClaimRef.UID = "x"
		},
		"volume v has volumeMode Block, but is specified in volumeMounts": func(_ *v1.Pod, _ *v1.PersistentVolumeClaim,
			pv *v1.PersistentVolume) {
			pv.Spec.VolumeMode = new(v1.PersistentVolumeBlock)
		},
		"volume v has volumeMode Filesystem, but is specified in volumeDevices": func(p *v1.Pod, _ *v1.PersistentVolumeClaim,
			_ *v1.PersistentVolume) {
			p.Spec.Containers[0].VolumeMounts = nil
			p.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "v", DevicePath: "/v"}}
		},
		"PVC ns/pod-v was not created for pod ns/pod (pod is not owner)": func(p *v1.Pod, c *v1.PersistentVolumeClaim,
			_ *v1.PersistentVolume) {
			p.Spec.Volumes[0].VolumeSource = v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}
			c.Name = "pod-v"
		},
	} {
		t.Run(want, func(t *testing.T) {
			pod := claiming()
			claim, pv := bound(v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: t.TempDir()}})
			change(pod, claim, pv)
			m, _ := manager(t, fake.NewClientset(claim, pv))
			_, err := m.Mount(t.Context(), pod)
			if err == nil || !strings.Contains(err.Error(), want) || Reason(err) != "FailedMount" ||
				!strings.HasPrefix(err.Error(),
					"Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process "+
						"volumes=[v]: ") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestClaimedVolumes(t *testing.T) {
	pod := claiming()
	path := t.TempDir()
	claim, pv := bound(v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path}})
	client := fake.NewClientset(claim, pv)
	m, _ := manager(t, client)
	pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	for _, when := range []string{"at first", "again", "after its claim was deleted"} {
		paths, err := m.Mount(t.Context(), pod)
		if err != nil || paths["v"] != (Mounted{Path: path, ReadOnly: true}) {
			t.Errorf("%s: %+v, %v", when, paths["v"], err)
		}
		if when == "again" {
			if err := client.CoreV1().PersistentVolumeClaims("ns").Delete(t.Context(), "claim",
				metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	pod.Spec.Containers[0].VolumeMounts = nil // what no container uses is not made
	m, _ = manager(t, client)
	if paths, err := m.Mount(t.Context(), pod); err != nil || len(paths) != 0 {
		t.Errorf("unused: %v, %v", paths, err)
	}
}

func TestEphemeralVolumeOfItsPod(t *testing.T) {
	pod := podWith(v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}})
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
	claim, pv := bound(v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: t.TempDir()}})
	claim.Name = "pod-v"
	claim.OwnerReferences = []metav1.OwnerReference{{UID: pod.UID, Controller: new(true)}}
	m, _ := manager(t, fake.NewClientset(claim, pv))
	if paths, err := m.Mount(t.Context(), pod); err != nil || paths["v"].Path != pv.Spec.HostPath.Path {
		t.Errorf("%v, %v", paths, err)
	}
}

func TestChecksOfPersistentVolumes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	host := v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}}
	local := func(path string) v1.PersistentVolumeSource {
		return v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}}
	}
	elsewhere := &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"b"}}},
	}}}}
	for want, test := range map[string]struct {
		source v1.PersistentVolumeSource
		change func(*v1.PersistentVolumeSpec)
		reason string
	}{
		`MountVolume.NodeAffinity check failed for volume "pv" : no matching NodeSelectorTerms`: {host,
			func(s *v1.PersistentVolumeSpec) { s.NodeAffinity = elsewhere }, "FailedMount"},
		`MountVolume.MountOptionSupport check failed for volume "pv" : `: {host,
			func(s *v1.PersistentVolumeSpec) { s.MountOptions = []string{"noatime"} }, "FailedMount"},
		`MountVolume.NewMounter initialization failed for volume "pv" : path "/not/here" does not exist`: {local("/not/here"),
			func(*v1.PersistentVolumeSpec) {}, "FailedMount"},
		`MapVolume.MapPodDevice failed for volume "pv" : path "` + file + `" is not a block device`: {local(file),
			func(s *v1.PersistentVolumeSpec) { s.VolumeMode = new(v1.PersistentVolumeBlock) }, "FailedMapVolume"},
		`MapVolume.SetUpDevice failed for volume "pv" : volume plugin "kubernetes.io/host-path" does not support block volumes`: {
			host, func(s *v1.PersistentVolumeSpec) { s.VolumeMode = new(v1.PersistentVolumeBlock) }, "FailedMapVolume"},
		`no volume plugin matched`: {v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{}}, func(*v1.PersistentVolumeSpec) {},
			"FailedMount"},
	} {
		t.Run(want, func(t *testing.T) {
			pod := claiming()
			claim, pv := bound(test.source)
			test.change(&pv.Spec)
			if pv.Spec.VolumeMode != nil {
				pod.Spec.Containers[0].VolumeMounts = nil
				pod.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "v", DevicePath: "/v"}}
			}
			m, _ := manager(t, fake.NewClientset(claim, pv))
			m.Node = func() *v1.Node {
				return &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": "a"}}}
			}
			_, err := m.Mount(t.Context(), pod)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("got %v", err)
			}
			if got := Reason(err); got != test.reason {
				t.Errorf("reason %q, want %q", got, test.reason)
			}
		})
	}
}
