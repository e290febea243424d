package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Snapshot is what an explanation is made from, besides the object itself. What is missing in it is not taken for
// absent: Known says which kinds are whole.
type Snapshot struct {
	// Now is when the snapshot was taken.
	Now time.Time
	// Those of the object's namespace.
	Events      []corev1.Event
	Pods        []corev1.Pod
	ReplicaSets []appsv1.ReplicaSet
	Jobs        []batchv1.Job
	Claims      []corev1.PersistentVolumeClaim
	Slices      []discoveryv1.EndpointSlice
	// ResourceClaims that exist, by their names.
	ResourceClaims map[string]bool
	// Those of the cluster.
	Nodes   []corev1.Node
	Classes []storagev1.StorageClass
	// Unknown are the kinds that could not be read, with the reason; their absence explains nothing.
	Unknown map[string]error
}

// needs are the kinds, besides events, that explaining one kind takes.
var needs = map[string][]string{
	"Pod":                   {"ResourceClaim", "PersistentVolumeClaim", "Node", "StorageClass"},
	"ReplicaSet":            {"Pod", "ResourceClaim", "PersistentVolumeClaim", "Node", "StorageClass"},
	"ReplicationController": {"Pod", "ResourceClaim", "PersistentVolumeClaim", "Node", "StorageClass"},
	"Deployment":            {"ReplicaSet", "Pod", "ResourceClaim", "PersistentVolumeClaim", "Node", "StorageClass"},
	"StatefulSet":           {"Pod", "ResourceClaim", "PersistentVolumeClaim", "Node", "StorageClass"},
	"DaemonSet":             {"Pod", "ResourceClaim", "PersistentVolumeClaim", "Node", "StorageClass"},
	"Job":                   {"Pod", "ResourceClaim", "PersistentVolumeClaim", "Node", "StorageClass"},
	"CronJob":               {"Job", "Pod", "ResourceClaim", "PersistentVolumeClaim", "Node", "StorageClass"},
	"Service":               {"Pod", "EndpointSlice", "ResourceClaim", "PersistentVolumeClaim", "Node", "StorageClass"},
	"PersistentVolumeClaim": {"Pod", "StorageClass", "PersistentVolumeClaim"},
}

// Read reads what Explain needs for an object. A kind that the client may not read, or that the cluster doesn't serve,
// is left out, and noted in Unknown; other errors are returned.
func Read(ctx context.Context, c client.Reader, obj client.Object) (Snapshot, error) {
	s := Snapshot{Now: time.Now(), Unknown: map[string]error{}}
	var events corev1.EventList
	if err := s.read(ctx, c, "Event", &events, client.InNamespace(cmp.Or(obj.GetNamespace(),
		corev1.NamespaceDefault))); err != nil {
		return s, err
	}
	s.Events = events.Items
	for _, kind := range needs[kindOf(obj)] {
		if err := s.readKind(ctx, c, kind, obj.GetNamespace()); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *Snapshot) readKind(ctx context.Context, c client.Reader, kind, namespace string) error {
	within := client.InNamespace(namespace)
	switch kind {
	case "Pod":
		var l corev1.PodList
		err := s.read(ctx, c, kind, &l, within)
		s.Pods = l.Items
		return err
	case "ReplicaSet":
		var l appsv1.ReplicaSetList
		err := s.read(ctx, c, kind, &l, within)
		s.ReplicaSets = l.Items
		return err
	case "Job":
		var l batchv1.JobList
		err := s.read(ctx, c, kind, &l, within)
		s.Jobs = l.Items
		return err
	case "PersistentVolumeClaim":
		var l corev1.PersistentVolumeClaimList
		err := s.read(ctx, c, kind, &l, within)
		s.Claims = l.Items
		return err
	case "ResourceClaim":
		l := metav1.PartialObjectMetadataList{}
		l.SetGroupVersionKind(resourcev1.SchemeGroupVersion.WithKind("ResourceClaimList"))
		err := s.read(ctx, c, kind, &l, within)
		s.ResourceClaims = map[string]bool{}
		for i := range l.Items {
			s.ResourceClaims[l.Items[i].Name] = true
		}
		return err
	case "EndpointSlice":
		var l discoveryv1.EndpointSliceList
		err := s.read(ctx, c, kind, &l, within)
		s.Slices = l.Items
		return err
	case "Node":
		var l corev1.NodeList
		err := s.read(ctx, c, kind, &l)
		s.Nodes = l.Items
		return err
	case "StorageClass":
		var l storagev1.StorageClassList
		err := s.read(ctx, c, kind, &l)
		s.Classes = l.Items
		return err
	}
	return fmt.Errorf("why: no rule reads the kind %s", kind)
}

func (s *Snapshot) read(ctx context.Context, c client.Reader, kind string, list client.ObjectList,
	opts ...client.ListOption) error {
	err := c.List(ctx, list, opts...)
	var status apierrors.APIStatus
	if errors.As(err, &status) && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) {
		s.Unknown[kind] = err
		return nil
	}
	return err
}

func (s *Snapshot) known(kind string) bool { return s.Unknown[kind] == nil }

// lastEvent is the newest event of an object that has one of the reasons, nil without.
func (s *Snapshot) lastEvent(uid types.UID, reasons ...string) *corev1.Event {
	var last *corev1.Event
	for i := range s.Events {
		e := &s.Events[i]
		if e.InvolvedObject.UID == uid && slices.Contains(reasons, e.Reason) &&
			(last == nil || !at(e).Before(at(last))) {
			last = e
		}
	}
	return last
}

// at is when an event was seen last.
func at(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}

// node finds a node.
func (s *Snapshot) node(name string) *corev1.Node {
	for i := range s.Nodes {
		if s.Nodes[i].Name == name {
			return &s.Nodes[i]
		}
	}
	return nil
}

// claim finds a claim.
func (s *Snapshot) claim(name string) *corev1.PersistentVolumeClaim {
	for i := range s.Claims {
		if s.Claims[i].Name == name {
			return &s.Claims[i]
		}
	}
	return nil
}
