package deployment

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// observed is all that a decision depends on.
type observed struct {
	deployment *apps.Deployment
	// sets are the ReplicaSets the deployment controls.
	sets []*apps.ReplicaSet
	// running counts, by set, the pods that have not ended, terminating ones too. Only Recreate uses it.
	running map[types.UID]int
	now     time.Time
}

// plan is the next step of a rollout. Its parts are applied in the order of the fields; the event that a write
// causes brings the next step.
type plan struct {
	// create is the ReplicaSet of the current template, if it is missing.
	create *apps.ReplicaSet
	// update holds the existing sets that change, with their new content; resized tells of their sizes.
	update []*apps.ReplicaSet
	// delete holds sets beyond the history limit.
	delete []*apps.ReplicaSet
	// events tell of sizes changed by update.
	events []event
	// revision is the deployment's annotation; status its new status.
	revision string
	status   apps.DeploymentStatus
	// again is when the progress deadline passes; 0 if it doesn't matter.
	again time.Duration
}

type event struct {
	kind, reason, message string
}

// step is the state of one decision: copies of the sets that it may change.
type step struct {
	observed
	d       *apps.Deployment
	sets    []*apps.ReplicaSet
	newSet  *apps.ReplicaSet // of the current template; nil if there is none
	oldSets []*apps.ReplicaSet
	created bool
	plan    plan
}

func decide(o observed) plan {
	s := newStep(o)
	s.pausing()
	switch {
	case s.d.DeletionTimestamp != nil:
		s.plan.status = s.summary()
		return s.plan
	case s.d.Spec.Paused || s.resizing():
		if s.newSet != nil {
			s.refreshNewSet()
		}
		s.resize()
		if s.d.Spec.Paused {
			s.prune()
		}
		s.plan.status = s.summary()
	case s.d.Spec.Strategy.Type == apps.RecreateDeploymentStrategyType:
		s.recreate()
	default:
		s.roll()
	}
	s.collect()
	return s.plan
}

func newStep(o observed) *step {
	s := &step{observed: o, d: o.deployment.DeepCopy()}
	for _, set := range o.sets {
		s.sets = append(s.sets, set.DeepCopy())
	}
	slices.SortStableFunc(s.sets, olderFirst)
	for _, set := range s.sets {
		if s.newSet == nil && sameTemplate(&set.Spec.Template, &s.d.Spec.Template) {
			s.newSet = set
			continue
		}
		s.oldSets = append(s.oldSets, set)
	}
	s.plan.revision = s.d.Annotations[RevisionAnnotation]
	return s
}

// olderFirst makes every choice among sets deterministic.
func olderFirst(a, b *apps.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// roll is the rolling update: grow the new set as far as maxSurge lets it; if it can't grow, shrink the old ones
// as far as maxUnavailable lets them.
func (s *step) roll() {
	if !s.ensureNewSet() && !s.fitNewSet() {
		s.shrinkOldSets()
	}
	s.finish()
}

// recreate ends all old pods before the first new one starts.
func (s *step) recreate() {
	if s.newSet != nil {
		s.refreshNewSet()
	}
	shrunk := false
	for _, set := range s.oldSets {
		shrunk = s.scale(set, 0) || shrunk
	}
	if !shrunk && !s.oldPodsRun() {
		if !s.ensureNewSet() {
			s.fitNewSet()
		}
	}
	s.finish()
}

func (s *step) oldPodsRun() bool {
	for uid, count := range s.running {
		if count > 0 && (s.newSet == nil || s.newSet.UID != uid) {
			return true
		}
	}
	return false
}

// finish cleans up after a rollout that is complete, and reports how far this one is.
func (s *step) finish() {
	if complete(s.d, &s.d.Status) {
		s.prune()
	}
	s.plan.status = s.progress(s.summary())
	s.plan.again = s.untilDeadline(&s.plan.status)
}

// ensureNewSet makes or refreshes the set of the current template, and tells whether that was made here.
func (s *step) ensureNewSet() bool {
	if s.newSet != nil {
		s.refreshNewSet()
		return false
	}
	s.newSet = s.makeNewSet()
	s.created = true
	s.sets = append(s.sets, s.newSet)
	s.plan.create = s.newSet
	s.plan.revision = s.newSet.Annotations[RevisionAnnotation]
	return true
}

// refreshNewSet gives an existing set of the current template the newest revision: a template that is taken up
// again (a rollback) becomes the latest of the history.
func (s *step) refreshNewSet() {
	annotate(s.d, s.newSet, nextRevision(s.oldSets), true)
	s.newSet.Spec.MinReadySeconds = s.d.Spec.MinReadySeconds
	s.plan.revision = s.newSet.Annotations[RevisionAnnotation]
}

// fitNewSet brings the new set nearer to its size and tells whether that changed it.
func (s *step) fitNewSet() bool {
	want := replicas(s.d)
	if size(s.newSet) < want {
		want = s.newSetSize()
	}
	return s.scale(s.newSet, want)
}

// scale notes the new size of set in it, and tells whether it is another one.
func (s *step) scale(set *apps.ReplicaSet, to int32) bool {
	from := size(set)
	if from == to {
		if to > 0 {
			s.noteSize(set)
		}
		return false
	}
	set.Spec.Replicas = &to
	s.noteSize(set)
	direction := "down"
	if to > from {
		direction = "up"
	}
	s.plan.events = append(s.plan.events, event{v1.EventTypeNormal, "ScalingReplicaSet",
		fmt.Sprintf("Scaled %s replica set %s from %d to %d", direction, set.Name, from, to)})
	return true
}

// prune deletes the oldest of the sets that are done with, beyond the history limit.
func (s *step) prune() {
	if s.d.Spec.RevisionHistoryLimit == nil {
		return
	}
	var done []*apps.ReplicaSet
	for _, set := range s.oldSets {
		if set.DeletionTimestamp == nil {
			done = append(done, set)
		}
	}
	excess := len(done) - int(*s.d.Spec.RevisionHistoryLimit)
	if excess <= 0 {
		return
	}
	slices.SortStableFunc(done, func(a, b *apps.ReplicaSet) int { return cmp.Compare(revisionOf(a), revisionOf(b)) })
	for _, set := range done[:excess] {
		if set.Status.Replicas == 0 && size(set) == 0 && set.Generation <= set.Status.ObservedGeneration {
			s.plan.delete = append(s.plan.delete, set)
		}
	}
}

// collect finds what the step changed in the sets that exist.
func (s *step) collect() {
	before := map[types.UID]*apps.ReplicaSet{}
	for _, set := range s.observed.sets {
		before[set.UID] = set
	}
	for _, set := range s.sets {
		if old := before[set.UID]; old != nil && !equality.Semantic.DeepEqual(old, set) && set != s.plan.create {
			s.plan.update = append(s.plan.update, set)
		}
	}
}
