package deployment

import (
	"maps"
	"strconv"
	"strings"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/pods"
)

// RevisionAnnotation numbers the templates a deployment has had; kubectl's rollout commands read it.
const RevisionAnnotation = "deployment.kubernetes.io/revision"

const (
	historyAnnotation  = "deployment.kubernetes.io/revision-history"
	desiredAnnotation  = "deployment.kubernetes.io/desired-replicas"
	maxAnnotation      = "deployment.kubernetes.io/max-replicas"
	historyLimit       = 2000 // characters
	rollbackAnnotation = apps.DeprecatedRollbackTo
)

// ownAnnotations are not passed on from the deployment to its sets: each has its own, or none.
var ownAnnotations = map[string]bool{
	v1.LastAppliedConfigAnnotation: true,
	RevisionAnnotation:             true,
	historyAnnotation:              true,
	desiredAnnotation:              true,
	maxAnnotation:                  true,
	rollbackAnnotation:             true,
}

func revisionOf(obj metav1.Object) int64 {
	n, err := strconv.ParseInt(obj.GetAnnotations()[RevisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func nextRevision(old []*apps.ReplicaSet) int64 {
	var highest int64
	for _, set := range old {
		highest = max(highest, revisionOf(set))
	}
	return highest + 1
}

func number(set *apps.ReplicaSet, annotation string) (int32, bool) {
	n, err := strconv.ParseInt(set.Annotations[annotation], 10, 32)
	return int32(n), err == nil
}

// annotate passes the deployment's annotations on to set and raises its revision, remembering the one it had.
func annotate(d *apps.Deployment, set *apps.ReplicaSet, revision int64, existed bool) {
	if set.Annotations == nil {
		set.Annotations = map[string]string{}
	}
	for key, value := range d.Annotations {
		if !ownAnnotations[key] {
			set.Annotations[key] = value
		}
	}
	old, had := set.Annotations[RevisionAnnotation]
	if revisionOf(set) >= revision {
		return
	}
	set.Annotations[RevisionAnnotation] = strconv.FormatInt(revision, 10)
	if existed && had {
		set.Annotations[historyAnnotation] = remember(set.Annotations[historyAnnotation], old)
	}
}

// remember appends revision to a comma-separated history that is cut at its old end.
func remember(history, revision string) string {
	if history == "" {
		return revision
	}
	for len(history)+len(revision)+1 > historyLimit {
		_, rest, found := strings.Cut(history, ",")
		if !found {
			return revision
		}
		history = rest
	}
	return history + "," + revision
}

// noteSize records for which size of the deployment set was sized, so that a change of it is known as such.
func (s *step) noteSize(set *apps.ReplicaSet) {
	if set.Annotations == nil {
		set.Annotations = map[string]string{}
	}
	set.Annotations[desiredAnnotation] = strconv.Itoa(int(replicas(s.d)))
	set.Annotations[maxAnnotation] = strconv.Itoa(int(maxSize(s.d)))
}

// sameTemplate compares all but the hash label.
func sameTemplate(a, b *v1.PodTemplateSpec) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	delete(a.Labels, apps.DefaultDeploymentUniqueLabelKey)
	delete(b.Labels, apps.DefaultDeploymentUniqueLabelKey)
	return equality.Semantic.DeepEqual(a, b)
}

// makeNewSet makes the set of the current template. Its name is a function of the template, so that a second try
// can't make a second set.
func (s *step) makeNewSet() *apps.ReplicaSet {
	template := s.d.Spec.Template.DeepCopy()
	hash := pods.TemplateHash(template, s.d.Status.CollisionCount)
	template.Labels = with(template.Labels, hash)
	selector := s.d.Spec.Selector.DeepCopy()
	selector.MatchLabels = with(selector.MatchLabels, hash)
	set := &apps.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:            s.d.Name + "-" + hash,
			Namespace:       s.d.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.d, kind)},
			Labels:          template.Labels,
		},
		Spec: apps.ReplicaSetSpec{
			Replicas:        ptr.To[int32](0),
			MinReadySeconds: s.d.Spec.MinReadySeconds,
			Selector:        selector,
			Template:        *template,
		},
	}
	s.newSet = set
	s.sets = append(s.sets, set)
	set.Spec.Replicas = ptr.To(s.newSetSize())
	s.sets = s.sets[:len(s.sets)-1]
	annotate(s.d, set, nextRevision(s.oldSets), false)
	s.noteSize(set)
	return set
}

func with(labels map[string]string, hash string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[apps.DefaultDeploymentUniqueLabelKey] = hash
	return labels
}
