package scheduler

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/commit"
	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// benchDevices is the number of devices and of attachable volumes of a node.
const benchDevices = 8

// BenchmarkReserve measures a decision, its reservation and assumption among 5,000 nodes, for pods that bring nothing,
// or a claim of a volume that is provisioned for them where a driver has room, of a volume that exists on a node, or of
// a device.
func BenchmarkReserve(b *testing.B) {
	for name, prepare := range map[string]func(*snapshot.Snapshot) func(*snapshot.Snapshot, *v1.Pod){
		"plain": func(*snapshot.Snapshot) func(*snapshot.Snapshot, *v1.Pod) {
			return func(*snapshot.Snapshot, *v1.Pod) {}
		},
		"volumes": benchVolumes, "room": benchRoom, "local": benchLocal, "claims": benchClaims,
	} {
		b.Run(name, func(b *testing.B) {
			s := snapshot.New()
			for i := range benchNodes {
				s.SetNode(newNode(fmt.Sprintf("node-%04d", i), "64"))
			}
			bring := prepare(s)
			profiles, _, err := build(detached(v1.DefaultSchedulerName))
			if err != nil {
				b.Fatal(err)
			}
			profile, at := profiles[v1.DefaultSchedulerName], 0
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				obj := newPod(fmt.Sprintf("p-%d", i), "10m")
				obj.UID = types.UID(obj.Name)
				bring(s, obj)
				p := snapshot.NewPod(obj)
				d := profile.cycle.Schedule(s, cycle.Request{Pod: p, Start: at, Seed: uint64(i)})
				at = d.Next
				if d.Node == "" {
					b.Fatal(d.Err, d.Message())
				}
				status := profile.commit.Reserve(b.Context(), &commit.Placement{Pod: p, Node: d.Node, Kept: d.Kept,
					State: d.State, Snapshot: func(do func(*snapshot.Snapshot)) { do(s) }})
				if status != nil {
					b.Fatal(status.Message())
				}
				s.Assume(p, d.Node)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pods/s")
		})
	}
}

func benchVolumes(s *snapshot.Snapshot) func(*snapshot.Snapshot, *v1.Pod) {
	s.SetStorageClass(schedulertest.Class("late", schedulertest.Driver, storagev1.VolumeBindingWaitForFirstConsumer))
	for _, n := range s.Nodes() {
		s.SetCSINode(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{{Name: schedulertest.Driver, NodeID: n.Name,
				Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To(int32(benchDevices))}}}}})
	}
	return benchClaim
}

// benchRoom has the driver publish how much room it has on each node.
func benchRoom(s *snapshot.Snapshot) func(*snapshot.Snapshot, *v1.Pod) {
	s.SetCSIDriver(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: schedulertest.Driver},
		Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(true)}})
	for _, n := range s.Nodes() {
		s.SetCapacity(&storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "driver", Name: n.Name},
			StorageClassName: "late", Capacity: ptr.To(resource.MustParse("1Ti")),
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelHostname: n.Name}}})
	}
	return benchVolumes(s)
}

// benchLocal gives each node some volumes.
func benchLocal(s *snapshot.Snapshot) func(*snapshot.Snapshot, *v1.Pod) {
	s.SetStorageClass(schedulertest.Class("late", "", storagev1.VolumeBindingWaitForFirstConsumer))
	for _, n := range s.Nodes() {
		for i := range benchDevices {
			s.SetVolume(schedulertest.Volume(fmt.Sprintf("%s-%d", n.Name, i), "late", "1Gi", v1.LabelHostname, n.Name))
		}
	}
	return benchClaim
}

// benchClaim brings a claim of the class.
func benchClaim(s *snapshot.Snapshot, p *v1.Pod) {
	claim := schedulertest.Claim(p.Name, "late", "1Gi", nil)
	claim.Namespace = p.Namespace
	s.SetClaim(claim)
	schedulertest.Using(p.Name)(p)
}

func benchClaims(s *snapshot.Snapshot) func(*snapshot.Snapshot, *v1.Pod) {
	s.SetDeviceClass(schedulertest.DeviceClass("gpus", nil))
	for _, n := range s.Nodes() {
		devices := make([]resourcev1.Device, benchDevices)
		for i := range devices {
			devices[i] = schedulertest.Device(fmt.Sprint("gpu-", i), "m", nil)
		}
		s.SetResourceSlice(schedulertest.Slice(n.Name, devices...))
	}
	return func(s *snapshot.Snapshot, p *v1.Pod) {
		claim := schedulertest.ResourceClaim(p.Name, schedulertest.Exactly("gpu", "gpus", 1))
		claim.Namespace = p.Namespace
		s.SetResourceClaim(claim)
		schedulertest.Claiming(p.Name)(p)
	}
}
