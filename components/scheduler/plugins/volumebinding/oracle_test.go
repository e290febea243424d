package volumebinding

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	. "quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// oracle knows volumes and capacities as lists, and looks at all of them for every node.
type oracle struct {
	snapshot   *snapshot.Snapshot
	volumes    map[string]*v1.PersistentVolume
	capacities []*storagev1.CSIStorageCapacity
}

// plan returns the volume of each claim ("" to provision it), or why a node won't do.
func (o *oracle) plan(claims []*v1.PersistentVolumeClaim, node *v1.Node) (map[string]string, string) {
	claims = slices.Clone(claims)
	slices.SortStableFunc(claims, func(a, b *v1.PersistentVolumeClaim) int {
		x, y := a.Spec.Resources.Requests[v1.ResourceStorage], b.Spec.Resources.Requests[v1.ResourceStorage]
		return x.Cmp(y)
	})
	found, taken := map[string]string{}, map[string]*v1.PersistentVolume{}
	var provision []*v1.PersistentVolumeClaim
	for _, claim := range claims {
		found[claim.Name] = ""
		if selected, ok := claim.Annotations[volume.AnnSelectedNode]; ok {
			if selected != node.Name {
				return nil, reasonBindConflict
			}
			provision = append(provision, claim)
			continue
		}
		var candidates []*v1.PersistentVolume
		for _, pv := range o.volumes {
			if pv.Spec.StorageClassName == *claim.Spec.StorageClassName {
				candidates = append(candidates, pv)
			}
		}
		slices.SortFunc(candidates, func(a, b *v1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
		pv, err := volume.FindMatchingVolume(claim, candidates, node, taken, true, true)
		switch {
		case err != nil:
			return nil, reasonBindConflict
		case pv == nil:
			provision = append(provision, claim)
		default:
			found[claim.Name], taken[pv.Name] = pv.Name, pv
		}
	}
	for _, claim := range provision {
		if class := o.snapshot.StorageClass(
			*claim.Spec.StorageClassName,
		); class.Provisioner == volume.NotSupportedProvisioner {
			return nil, reasonBindConflict
		}
		asked := claim.Spec.Resources.Requests[v1.ResourceStorage]
		if !slices.ContainsFunc(o.capacities, func(c *storagev1.CSIStorageCapacity) bool {
			return c.StorageClassName == *claim.Spec.StorageClassName && c.Capacity.Cmp(asked) >= 0 && reaches(c, node)
		}) {
			return nil, reasonNoSpace
		}
	}
	return found, ""
}

func randomVolume(r *rand.Rand, name string) *v1.PersistentVolume {
	class, size := []string{"wait", "csi"}[r.IntN(2)], fmt.Sprint(1+r.IntN(3), "Gi")
	pv := Volume(name, class, size, "")
	requirement := func() v1.NodeSelectorRequirement {
		return v1.NodeSelectorRequirement{Key: []string{"zone", v1.LabelHostname}[r.IntN(2)],
			Operator: []v1.NodeSelectorOperator{v1.NodeSelectorOpIn, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn}[r.IntN(3)],
			Values:   []string{fmt.Sprint("n", r.IntN(6)), fmt.Sprint(r.IntN(3))}}
	}
	for range r.IntN(3) {
		term := v1.NodeSelectorTerm{}
		for range r.IntN(3) {
			term.MatchExpressions = append(term.MatchExpressions, requirement())
		}
		if pv.Spec.NodeAffinity == nil {
			pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{}}
		}
		pv.Spec.NodeAffinity.Required.NodeSelectorTerms = append(pv.Spec.NodeAffinity.Required.NodeSelectorTerms, term)
	}
	switch r.IntN(12) {
	case 0:
		pv.Status.Phase = v1.VolumeReleased
	case 1:
		pv.DeletionTimestamp = &metav1.Time{}
	case 2:
		pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}
	case 3:
		pv.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
	case 4:
		pv.Spec.VolumeAttributesClassName = ptr.To("gold")
	case 5, 6, 7:
		pv.Labels = map[string]string{"disk": "fast"}
	}
	if r.IntN(4) == 0 {
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: fmt.Sprint("c", r.IntN(4))}
		if r.IntN(3) == 0 {
			pv.Spec.ClaimRef.UID = "another"
		}
	}
	return pv
}

func randomCapacity(r *rand.Rand, name string) *storagev1.CSIStorageCapacity {
	c := &storagev1.CSIStorageCapacity{
		ObjectMeta:       metav1.ObjectMeta{Namespace: "driver", Name: name},
		StorageClassName: []string{"wait", "csi"}[r.IntN(2)],
		Capacity:         ptr.To(resource.MustParse(fmt.Sprint(1+r.IntN(3), "Gi"))),
	}
	switch r.IntN(3) {
	case 0:
		c.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{"zone": fmt.Sprint(r.IntN(3))}}
	case 1:
		c.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelHostname: fmt.Sprint("n", r.IntN(6)),
			"zone": fmt.Sprint(r.IntN(3))}}
	}
	return c
}

// TestIndexes holds what a pod's claims get on each node against a look at all volumes and capacities, while these
// come, change, are assumed, given back and go.
func TestIndexes(t *testing.T) {
	static, refused := 0, 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := Snapshot(Class("wait", "", wait), Class("csi", "csi.example.com", wait),
			&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi.example.com"},
				Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(true)}})
		for i := range 6 {
			s.SetNode(Node(fmt.Sprint("n", i), fmt.Sprint("zone=", i%3)))
		}
		o := &oracle{snapshot: s, volumes: map[string]*v1.PersistentVolume{}}
		for i := range 5 {
			o.capacities = append(o.capacities, randomCapacity(r, fmt.Sprint("old", i)))
			s.SetCapacity(o.capacities[i])
		}
		for range 80 {
			changeOne(r, s, o)
			claims := randomClaims(r, s)
			names := make([]string, len(claims))
			for i, claim := range claims {
				names[i] = claim.Name
			}
			checkNodes(t, s, o, claims, names, &static, &refused)
		}
	}
	if static < 1000 || refused < 1000 {
		t.Errorf("only %d plans with volumes, %d refusals", static, refused)
	}
}

func changeOne(r *rand.Rand, s *snapshot.Snapshot, o *oracle) {
	name := fmt.Sprint("v", r.IntN(25))
	switch r.IntN(6) {
	case 0:
		s.RemoveVolume(name)
		delete(o.volumes, name)
	case 1:
		if pv := s.ConfirmedVolume(name); pv != nil {
			pv = pv.DeepCopy()
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: fmt.Sprint("c", r.IntN(4))}
			if s.AssumeVolume(pv) {
				o.volumes[name] = pv
			}
		}
	case 2:
		s.RestoreVolume(name)
		if pv := s.ConfirmedVolume(name); pv != nil {
			o.volumes[name] = pv
		}
	case 3:
		i := r.IntN(len(o.capacities))
		changed := randomCapacity(r, o.capacities[i].Name)
		if r.IntN(2) == 0 {
			s.RemoveCapacity(types.NamespacedName{Namespace: changed.Namespace, Name: changed.Name})
		}
		o.capacities[i] = changed
		s.SetCapacity(changed)
	default:
		pv := randomVolume(r, name)
		pv.ResourceVersion = fmt.Sprint(r.IntN(1 << 30))
		s.SetVolume(pv)
		o.volumes[name] = pv
	}
}

func randomClaims(r *rand.Rand, s *snapshot.Snapshot) []*v1.PersistentVolumeClaim {
	var claims []*v1.PersistentVolumeClaim
	for i := range 1 + r.IntN(3) {
		claim := Claim(fmt.Sprint("c", i), []string{"wait", "csi"}[r.IntN(2)], fmt.Sprint(1+r.IntN(3), "Gi"), nil)
		switch r.IntN(8) {
		case 0:
			claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "fast"}}
		case 1:
			claim.Spec.AccessModes = append(claim.Spec.AccessModes, v1.ReadWriteMany)
		case 2:
			claim.Spec.VolumeAttributesClassName = ptr.To("gold")
		}
		if r.IntN(8) == 0 {
			claim.Annotations[volume.AnnSelectedNode] = "n1"
		}
		s.SetClaim(claim)
		claims = append(claims, claim)
	}
	return claims
}

func checkNodes(t *testing.T, s *snapshot.Snapshot, o *oracle, claims []*v1.PersistentVolumeClaim, names []string,
	static, refused *int) {
	t.Helper()
	prepared, refusal := (&Plugin{}).Filter(snapshot.NewPod(Pod("p", "", Using(names...))), s)
	if refusal != nil {
		t.Fatal(refusal.Reasons)
	}
	for _, n := range s.Nodes() {
		want, why := o.plan(claims, n.Obj)
		if refusal := prepared.Check(n); refusal != nil || why != "" {
			if *refused++; refusal == nil || !slices.Equal(refusal.Reasons, []string{why}) {
				t.Fatalf("on %s: %+v, want %q", n.Name, refusal, why)
			}
			continue
		}
		got := map[string]string{}
		kept := prepared.(*test).Keep(n).(*plan)
		for _, b := range kept.static {
			*static++
			got[b.claim.Name] = b.volume.Name
		}
		for _, claim := range kept.provision {
			got[claim.Name] = ""
		}
		if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("on %s: %s", n.Name, diff)
		}
	}
}
