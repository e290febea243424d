package persistentvolume

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// set changes an object of a test.
type set[T any] func(*T)

func claim(name, size, class string, changes ...set[v1.PersistentVolumeClaim]) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			StorageClassName: &class,
			Resources: v1.VolumeResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}},
		},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	}
	for _, change := range changes {
		change(c)
	}
	return c
}

func volume(name, size, class string, changes ...set[v1.PersistentVolume]) *v1.PersistentVolume {
	v := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)},
		Spec: v1.PersistentVolumeSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, StorageClassName: class,
			Capacity:                      v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/tmp/x"}},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}
	for _, change := range changes {
		change(v)
	}
	return v
}

func class(
	name, provisioner string, mode storagev1.VolumeBindingMode, annotations map[string]string,
) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Provisioner: provisioner, VolumeBindingMode: &mode}
}

func modes(all ...v1.PersistentVolumeAccessMode) set[v1.PersistentVolume] {
	return func(v *v1.PersistentVolume) { v.Spec.AccessModes = all }
}

func reservedFor(namespace, name, uid string) set[v1.PersistentVolume] {
	return func(v *v1.PersistentVolume) {
		v.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: name, UID: types.UID(uid)}
	}
}

func naming(volume string) set[v1.PersistentVolumeClaim] {
	return func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = volume }
}

func annotated[T any, P interface {
	*T
	metav1.Object
}](key, value string) set[T] {
	return func(o *T) {
		all := P(o).GetAnnotations()
		if all == nil {
			all = map[string]string{}
		}
		all[key] = value
		P(o).SetAnnotations(all)
	}
}

var completed = annotated[v1.PersistentVolumeClaim](storagehelpers.AnnBindCompleted, "yes")

func block(v *v1.PersistentVolume) { v.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock) }

func classless(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }

var classes = []*storagev1.StorageClass{
	class("now", "example.com/x", storagev1.VolumeBindingImmediate, nil),
	class("later", "example.com/x", storagev1.VolumeBindingWaitForFirstConsumer, nil),
	class("none", "kubernetes.io/no-provisioner", storagev1.VolumeBindingImmediate, nil),
	class("moved", "kubernetes.io/gce-pd", storagev1.VolumeBindingImmediate, nil),
}

func TestPlanClaim(t *testing.T) {
	withDefault := append([]*storagev1.StorageClass{class("standard", "x", storagev1.VolumeBindingImmediate,
		map[string]string{defaultAnnotation: "true"})}, classes...)
	selecting := func(c *v1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	}
	labelled := func(v *v1.PersistentVolume) { v.Labels = map[string]string{"a": "b"} }
	rwx := v1.ReadWriteMany
	for name, c := range map[string]struct {
		claim *v1.PersistentVolumeClaim
		view  claimView
		want  claimPlan // bind by its name only
		event string    // part of the only event's text
	}{
		"smallest that fits": {claim: claim("c", "2Gi", ""), view: claimView{volumes: []*v1.PersistentVolume{
			volume("a", "1Gi", ""), volume("b", "10Gi", ""), volume("d", "3Gi", "")}},
			want: claimPlan{bind: volume("d", "3Gi", "")}},
		"fewest modes first": {claim: claim("c", "1Gi", ""), view: claimView{volumes: []*v1.PersistentVolume{
			volume("a", "1Gi", "", modes(rwx, v1.ReadWriteOnce)), volume("b", "5Gi", "")}},
			want: claimPlan{bind: volume("b", "1Gi", "")}},
		"selector": {claim: claim("c", "1Gi", "", selecting), view: claimView{volumes: []*v1.PersistentVolume{
			volume("a", "1Gi", ""), volume("b", "5Gi", "", labelled)}}, want: claimPlan{bind: volume("b", "1Gi", "")}},
		"reserved for another": {claim: claim("c", "1Gi", ""), view: claimView{volumes: []*v1.PersistentVolume{
			volume("a", "1Gi", "", reservedFor("ns", "other", ""))}}, want: claimPlan{phase: v1.ClaimPending},
			event: "no persistent volumes available for this claim and no storage class is set"},
		"reserved for it": {claim: claim("c", "1Gi", ""), view: claimView{volumes: []*v1.PersistentVolume{
			volume("a", "1Gi", ""), volume("b", "5Gi", "", reservedFor("ns", "c", ""))}},
			want: claimPlan{bind: volume("b", "1Gi", "")}},
		"another mode of use": {claim: claim("c", "1Gi", ""), view: claimView{volumes: []*v1.PersistentVolume{
			volume("a", "1Gi", "", block)}}, want: claimPlan{phase: v1.ClaimPending}, event: "no persistent volumes"},
		"waits for a pod": {claim: claim("c", "1Gi", "later"), view: claimView{classes: classes,
			volumes: []*v1.PersistentVolume{
				volume("a", "1Gi", "later")}}, want: claimPlan{phase: v1.ClaimPending},
			event: "WaitForFirstConsumer waiting for first consumer to be created before binding"},
		"waits for pods' nodes": {claim: claim("c", "1Gi", "later"), view: claimView{classes: classes,
			waiting: []string{"p", "q"}},
			want: claimPlan{phase: v1.ClaimPending}, event: "WaitForPodScheduled waiting for pods p,q to be scheduled"},
		"waits for a pod's node": {claim: claim("c", "1Gi", "later"), view: claimView{classes: classes,
			waiting: []string{"p"}},
			want: claimPlan{phase: v1.ClaimPending}, event: "waiting for pod p to be scheduled"},
		"has its node": {claim: claim("c", "1Gi", "later", annotated[v1.PersistentVolumeClaim](storagehelpers.AnnSelectedNode,
			"n")),
			view: claimView{classes: classes, provisioning: true}, want: claimPlan{provisioner: "example.com/x"},
			event: "ExternalProvisioning Waiting for a volume to be created either by the external provisioner " +
				"'example.com/x' or"},
		"at once": {claim: claim("c", "1Gi", "now"), view: claimView{classes: classes, provisioning: true},
			want: claimPlan{provisioner: "example.com/x"}, event: "ExternalProvisioning"},
		"by a successor": {claim: claim("c", "1Gi", "moved"), view: claimView{classes: classes, provisioning: true},
			want: claimPlan{provisioner: "pd.csi.storage.gke.io"}, event: "'pd.csi.storage.gke.io'"},
		"not on demand": {claim: claim("c", "1Gi", "now"), view: claimView{classes: classes}},
		"no provisioner": {claim: claim("c", "1Gi", "none"), view: claimView{classes: classes, provisioning: true},
			event: "ProvisioningFailed no volume plugin matched name: kubernetes.io/no-provisioner"},
		"no such class": {claim: claim("c", "1Gi", "what"), view: claimView{classes: classes, provisioning: true},
			event: `ProvisioningFailed storageclass.storage.k8s.io "what" not found`},
		"default class": {claim: claim("c", "1Gi", "", classless), view: claimView{classes: withDefault},
			want: claimPlan{class: "standard"}},
		"no class wanted": {claim: claim("c", "1Gi", ""), view: claimView{classes: withDefault},
			want: claimPlan{phase: v1.ClaimPending}, event: "FailedBinding"},
		"names a volume to come": {claim: claim("c", "1Gi", "", naming("a")), want: claimPlan{phase: v1.ClaimPending}},
		"names a free volume": {claim: claim("c", "1Gi", "", naming("a")), view: claimView{volumes: []*v1.PersistentVolume{
			volume("a", "1Gi", "")}}, want: claimPlan{bind: volume("a", "1Gi", "")}},
		"names one too small": {claim: claim("c", "2Gi", "", naming("a")), view: claimView{volumes: []*v1.PersistentVolume{
			volume("a", "1Gi", "")}}, want: claimPlan{phase: v1.ClaimPending},
			event: `VolumeMismatch Cannot bind to requested volume "a": requested PV is too small`},
		"names one of another class": {claim: claim("c", "1Gi", "", naming("a")),
			view: claimView{volumes: []*v1.PersistentVolume{
				volume("a", "1Gi", "x")}}, want: claimPlan{phase: v1.ClaimPending}, event: "storageClassName does not match"},
		"names another's": {claim: claim("c", "1Gi", "", naming("a")), view: claimView{volumes: []*v1.PersistentVolume{
			volume("a", "1Gi", "", reservedFor("ns", "d", "uid-d"))}}, want: claimPlan{phase: v1.ClaimPending},
			event: `FailedBinding volume "a" already bound to a different claim.`},
		"bound": {claim: claim("c", "1Gi", "", naming("a"), completed), view: claimView{volumes: []*v1.PersistentVolume{
			volume("a", "1Gi", "", reservedFor("ns", "c", "uid-c"))}}, want: claimPlan{bind: volume("a", "1Gi", "")}},
		"lost its volume": {claim: claim("c", "1Gi", "", naming("a"), completed), want: claimPlan{phase: v1.ClaimLost,
			onChange: warning("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")}},
		"lost its reference": {claim: claim("c", "1Gi", "", completed), want: claimPlan{phase: v1.ClaimLost,
			onChange: warning("ClaimLost",
				"Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")}},
		"misbound": {claim: claim("c", "1Gi", "", naming("a"), completed), view: claimView{volumes: []*v1.PersistentVolume{
			volume("a", "1Gi", "", reservedFor("ns", "c", "old"))}}, want: claimPlan{phase: v1.ClaimLost,
			onChange: warning("ClaimMisbound",
				"Two claims are bound to the same volume, this one is bound incorrectly")}},
	} {
		got, err := planClaim(c.claim, &c.view)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.phase != c.want.phase || got.class != c.want.class || got.provisioner != c.want.provisioner ||
			got.onChange != c.want.onChange || (got.bind == nil) != (c.want.bind == nil) ||
			(got.bind != nil && got.bind.Name != c.want.bind.Name) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		text := ""
		for _, e := range got.events {
			text += e.reason + " " + e.message
		}
		if (c.event == "") != (text == "") || !strings.Contains(text, c.event) {
			t.Errorf("%s: event %q, want %q", name, text, c.event)
		}
	}
}

func policy(p v1.PersistentVolumeReclaimPolicy) set[v1.PersistentVolume] {
	return func(v *v1.PersistentVolume) { v.Spec.PersistentVolumeReclaimPolicy = p }
}

func phase(p v1.PersistentVolumePhase) set[v1.PersistentVolume] {
	return func(v *v1.PersistentVolume) { v.Status.Phase = p }
}

func local(v *v1.PersistentVolume) {
	v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/x"}}
}

func elsewhere(v *v1.PersistentVolume) { v.Spec.HostPath.Path = "/var/x" }

func TestPlanVolume(t *testing.T) {
	its := reservedFor("ns", "c", "uid-c")
	external := annotated[v1.PersistentVolume](storagehelpers.AnnDynamicallyProvisioned, "example.com/x")
	ours := annotated[v1.PersistentVolume](storagehelpers.AnnBoundByController, "yes")
	for name, c := range map[string]struct {
		volume *v1.PersistentVolume
		claim  *v1.PersistentVolumeClaim
		want   volumePlan // without events
		event  string
	}{
		"new":      {volume: volume("v", "1Gi", "", phase(v1.VolumePending)), want: volumePlan{phase: v1.VolumeAvailable}},
		"reserved": {volume: volume("v", "1Gi", "", reservedFor("ns", "c", "")), want: volumePlan{phase: v1.VolumeAvailable}},
		"bound": {volume: volume("v", "1Gi", "", its), claim: claim("c", "1Gi", "", naming("v")),
			want: volumePlan{phase: v1.VolumeBound}},
		"half bound": {volume: volume("v", "1Gi", "", its, ours), claim: claim("c", "1Gi", ""),
			want: volumePlan{wakeClaim: true}},
		"of another mode": {volume: volume("v", "1Gi", "", its, block), claim: claim("c", "1Gi", ""),
			event: `Cannot bind PersistentVolume to requested PersistentVolumeClaim "c" due to incompatible volumeMode.`},
		"kept": {volume: volume("v", "1Gi", "", its, phase(v1.VolumeBound)), want: volumePlan{phase: v1.VolumeReleased}},
		"of another claim of its name": {volume: volume("v", "1Gi", "", reservedFor("ns", "c", "old"), phase(v1.VolumeBound)),
			claim: claim("c", "1Gi", ""), want: volumePlan{phase: v1.VolumeReleased}},
		"failed before": {volume: volume("v", "1Gi", "", its, phase(v1.VolumeFailed))},
		"to be deleted by its provisioner": {volume: volume("v", "1Gi", "", its, external, local,
			policy(v1.PersistentVolumeReclaimDelete),
			phase(v1.VolumeBound)), want: volumePlan{phase: v1.VolumeReleased}},
		"to be deleted": {volume: volume("v", "1Gi", "", its, policy(v1.PersistentVolumeReclaimDelete),
			phase(v1.VolumeReleased)),
			want: volumePlan{reclaim: deleteByOwner}},
		"not deletable": {volume: volume("v", "1Gi", "", its, local, policy(v1.PersistentVolumeReclaimDelete)),
			want: volumePlan{phase: v1.VolumeFailed},
			event: `VolumeFailedDelete error getting deleter volume plugin for volume "v": ` +
				`no deletable volume plugin matched`},
		"too precious": {volume: volume("v", "1Gi", "", its, elsewhere, policy(v1.PersistentVolumeReclaimDelete)),
			want:  volumePlan{phase: v1.VolumeFailed},
			event: "host_path deleter only supports /tmp/.+ but received provided /var/x"},
		"to be emptied": {volume: volume("v", "1Gi", "", its, policy(v1.PersistentVolumeReclaimRecycle)),
			want: volumePlan{phase: v1.VolumeReleased, reclaim: recycle}},
		"can't be emptied": {volume: volume("v", "1Gi", "", its, local, policy(v1.PersistentVolumeReclaimRecycle)),
			want: volumePlan{phase: v1.VolumeFailed}, event: "No recycler plugin found for the volume!"},
		"unknown policy": {volume: volume("v", "1Gi", "", its, policy("Sell")), want: volumePlan{phase: v1.VolumeFailed},
			event: "VolumeUnknownReclaimPolicy Volume has an unrecognized reclaim policy"},
		"not taken": {volume: volume("v", "1Gi", "", its, ours), claim: claim("c", "1Gi", "", naming("other")),
			want: volumePlan{unbind: true}},
		"made in vain": {volume: volume("v", "1Gi", "", its, external, policy(v1.PersistentVolumeReclaimDelete),
			phase(v1.VolumeBound)),
			claim: claim("c", "1Gi", "", naming("other")), want: volumePlan{phase: v1.VolumeReleased}},
	} {
		got := planVolume(c.volume, c.claim)
		text := got.onChange.reason + " " + got.onChange.message
		for _, e := range got.events {
			text += e.reason + " " + e.message
		}
		if got.phase != c.want.phase || got.reclaim != c.want.reclaim || got.unbind != c.want.unbind ||
			got.wakeClaim != c.want.wakeClaim || !strings.Contains(text, c.event) || (c.event == "") != (text == " ") {
			t.Errorf("%s: %+v, want %+v %q", name, got, c.want, c.event)
		}
	}
}

func TestDefaultClass(t *testing.T) {
	old := class("old", "x", storagev1.VolumeBindingImmediate, map[string]string{betaDefaultAnnotation: "true"})
	young := class("young", "x", storagev1.VolumeBindingImmediate, map[string]string{defaultAnnotation: "true"})
	twin := class("twin", "x", storagev1.VolumeBindingImmediate, map[string]string{defaultAnnotation: "true"})
	old.CreationTimestamp = metav1.NewTime(time.Unix(1, 0))
	young.CreationTimestamp, twin.CreationTimestamp = metav1.NewTime(time.Unix(2, 0)), metav1.NewTime(time.Unix(2, 0))
	if got := defaultClass([]*storagev1.StorageClass{old, young, twin}); got != twin {
		t.Errorf("default class %v, want the newest, the first by name", got)
	}
	if got := defaultClass(classes); got != nil {
		t.Errorf("default class %v of none", got)
	}
}

func TestUnbound(t *testing.T) {
	its := reservedFor("ns", "c", "uid-c")
	by := annotated[v1.PersistentVolume](storagehelpers.AnnBoundByController, "yes")
	if got := unbound(volume("v", "1Gi", "", its, by)); got.Spec.ClaimRef != nil || len(got.Annotations) != 0 {
		t.Errorf("%+v is not free", got)
	}
	if got := unbound(volume("v", "1Gi", "", its)); got.Spec.ClaimRef == nil || got.Spec.ClaimRef.UID != "" {
		t.Errorf("%+v is no longer reserved", got.Spec.ClaimRef)
	}
}

// TestBindingsOfRandomClusters applies decisions to random claims and volumes until nothing changes: no volume has two
// claims, each that is bound fits, and no claim that could have a volume is without.
func TestBindingsOfRandomClusters(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		sizes := []string{"1Gi", "2Gi", "3Gi"}
		names := []string{"", "a"}
		var volumes []*v1.PersistentVolume
		var claims []*v1.PersistentVolumeClaim
		for i := range r.IntN(8) {
			volumes = append(volumes, volume(string(rune('a'+i)), sizes[r.IntN(3)], names[r.IntN(2)]))
			if r.IntN(3) == 0 {
				block(volumes[i])
			}
		}
		for i := range r.IntN(8) {
			claims = append(claims, claim(string(rune('a'+i)), sizes[r.IntN(3)], names[r.IntN(2)]))
		}
		for range 3 {
			for i := range claims {
				settle(t, claims, i, volumes)
			}
		}
		taken := map[string]string{}
		for _, c := range claims {
			if c.Spec.VolumeName == "" {
				if best, _ := bestVolume(c, volumes, false); best != nil {
					t.Fatalf("seed %d: claim %s could have %s", seed, c.Name, best.Name)
				}
				continue
			}
			if other := taken[c.Spec.VolumeName]; other != "" {
				t.Fatalf("seed %d: volume %s has claims %s and %s", seed, c.Spec.VolumeName, other, c.Name)
			}
			taken[c.Spec.VolumeName] = c.Name
			v := (&claimView{volumes: volumes}).volume(c.Spec.VolumeName)
			if why := mismatch(v, c); why != "" || v.Spec.ClaimRef.Name != c.Name {
				t.Fatalf("seed %d: claim %s has %s: %s", seed, c.Name, v.Name, why)
			}
		}
	}
}

// settle decides on claims[i] once and applies a binding.
func settle(t *testing.T, claims []*v1.PersistentVolumeClaim, i int, volumes []*v1.PersistentVolume) {
	t.Helper()
	plan, err := planClaim(claims[i], &claimView{volumes: volumes, classes: classes})
	if err != nil {
		t.Fatal(err)
	}
	if plan.bind == nil {
		return
	}
	bound, _, err := storagehelpers.GetBindVolumeToClaim(plan.bind, claims[i])
	if err != nil {
		t.Fatal(err)
	}
	bound.Status.Phase = v1.VolumeBound
	for at := range volumes {
		if volumes[at].Name == bound.Name {
			volumes[at] = bound
		}
	}
	claims[i], _ = boundClaim(claims[i], bound)
	claims[i], _ = claimStatus(claims[i], v1.ClaimBound, bound)
	if plan := planVolume(bound, claims[i]); plan.phase != v1.VolumeBound || plan.unbind {
		t.Fatalf("a bound volume gets %+v", plan)
	}
}
