// Package schedulertest builds nodes, pods and snapshots for tests in few words.
package schedulertest

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Node has room for 110 pods, the labels and resources ("cpu=1 zone=a taint=NoSchedule" ...) that spec gives it.
//
// A word of spec is key=value: a resource name sets allocatable, "taint" adds a taint with that effect and key "k",
// "unschedulable" cordons, everything else is a label.
func Node(name, spec string) *v1.Node {
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
		Status:     v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourcePods: resource.MustParse("110")}},
	}
	for key, value := range words(spec) {
		switch {
		case isResource(key):
			n.Status.Allocatable[v1.ResourceName(key)] = resource.MustParse(value)
		case key == "taint":
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: "k", Effect: v1.TaintEffect(value)})
		case key == "unschedulable":
			n.Spec.Unschedulable = true
		default:
			n.Labels[key] = value
		}
	}
	return n
}

// Pod is in namespace "default" and has one container that requests the resources spec gives.
//
// A word of spec is key=value: a resource name sets a request, "priority", "node" and "port" set what they say,
// "started" is its start in seconds, everything else is a label. Change, if not nil, does the rest.
func Pod(name, spec string, change func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name),
			Labels: map[string]string{}},
		Spec: v1.PodSpec{SchedulerName: v1.DefaultSchedulerName,
			Containers: []v1.Container{{Name: "c", Image: "image"}}},
	}
	c := &p.Spec.Containers[0]
	c.Resources.Requests = v1.ResourceList{}
	for key, value := range words(spec) {
		switch {
		case isResource(key):
			c.Resources.Requests[v1.ResourceName(key)] = resource.MustParse(value)
		case key == "priority":
			priority := int32(number(value))
			p.Spec.Priority = &priority
		case key == "node":
			p.Spec.NodeName = value
		case key == "port":
			c.Ports = append(c.Ports, v1.ContainerPort{HostPort: int32(number(value)), Protocol: v1.ProtocolTCP})
		case key == "started":
			p.Status.StartTime = &metav1.Time{Time: time.Unix(number(value), 0)}
		default:
			p.Labels[key] = value
		}
	}
	if change != nil {
		change(p)
	}
	return p
}

// Snapshot of these nodes, pods and storage objects; the pods must be on nodes.
func Snapshot(objects ...metav1.Object) *snapshot.Snapshot {
	s := snapshot.New()
	for _, obj := range objects {
		switch o := obj.(type) {
		case *v1.Node:
			s.SetNode(o)
		case *v1.Pod:
			s.SetPod(snapshot.NewPod(o))
		case *v1.PersistentVolumeClaim:
			s.SetClaim(o)
		case *v1.PersistentVolume:
			s.SetVolume(o)
		case *storagev1.StorageClass:
			s.SetStorageClass(o)
		case *storagev1.CSINode:
			s.SetCSINode(o)
		case *storagev1.CSIDriver:
			s.SetCSIDriver(o)
		case *storagev1.CSIStorageCapacity:
			s.SetCapacity(o)
		case *storagev1.VolumeAttachment:
			s.SetAttachment(o)
		case *resourcev1.ResourceClaim:
			s.SetResourceClaim(o)
		case *resourcev1.ResourceSlice:
			s.SetResourceSlice(o)
		case *resourcev1.DeviceClass:
			s.SetDeviceClass(o)
		}
	}
	return s
}

// Check returns, by node, the reasons of a filter: reasons joined by "; ", with "!" in front if unresolvable.
func Check(f cycle.Filter, pod *v1.Pod, s *snapshot.Snapshot) map[string]string {
	said := map[string]string{}
	test, refusal := f.Filter(snapshot.NewPod(pod), s)
	for _, n := range s.Nodes() {
		r := refusal
		if test != nil {
			r = test.Check(n)
		}
		if r == nil {
			continue
		}
		said[n.Name] = strings.Join(r.Reasons, "; ")
		if r.Unresolvable {
			said[n.Name] = "!" + said[n.Name]
		}
	}
	return said
}

// Scores returns the scores of a plug-in, by node; nil if it has no preference.
func Scores(f cycle.Score, pod *v1.Pod, s *snapshot.Snapshot) map[string]int64 {
	scores := make([]int64, len(s.Nodes()))
	if !f.Score(snapshot.NewPod(pod), s, s.Nodes(), scores) {
		return nil
	}
	given := map[string]int64{}
	for i, n := range s.Nodes() {
		given[n.Name] = scores[i]
	}
	return given
}

func words(spec string) map[string]string {
	found := map[string]string{}
	for _, word := range strings.Fields(spec) {
		key, value, _ := strings.Cut(word, "=")
		found[key] = value
	}
	return found
}

func isResource(key string) bool {
	return key == "cpu" || key == "memory" || key == "pods" || key == "ephemeral-storage" ||
		strings.HasPrefix(key, "example.com/")
}

func number(value string) int64 {
	q := resource.MustParse(value)
	return q.Value()
}

// Claim is a PersistentVolumeClaim in namespace "default" of a class and a size; change, if not nil, does the rest.
func Claim(name, class, size string, change func(*v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: "1",
			Annotations: map[string]string{}},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}},
		},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	}
	if change != nil {
		change(c)
	}
	return c
}

// Bound binds a claim to a volume.
func Bound(pv string) func(*v1.PersistentVolumeClaim) {
	return func(c *v1.PersistentVolumeClaim) {
		c.Spec.VolumeName = pv
		c.Annotations["pv.kubernetes.io/bind-completed"] = "yes"
		c.Status.Phase = v1.ClaimBound
	}
}

// Volume is an available PersistentVolume that nodes with one of the values of label can use; no label is every node.
func Volume(name, class, size, label string, values ...string) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1"},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}
	if label != "" {
		pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: label, Operator: v1.NodeSelectorOpIn, Values: values}}}}}}
	}
	return pv
}

// Class is a StorageClass; one without a provisioner is for volumes that exist already.
func Class(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	if provisioner == "" {
		provisioner = volume.NotSupportedProvisioner
	}
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner,
		VolumeBindingMode: &mode}
}

// Using makes a pod use claims.
func Using(claims ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		for _, name := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
		}
	}
}
