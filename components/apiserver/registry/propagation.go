package registry

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// collectorFinalizers are the finalizers as the propagation policy wants them
// (https://kubernetes.io/docs/concepts/architecture/garbage-collection/#cascading-deletion).
func (d *deletion) collectorFinalizers(
	has []string, options *metav1.DeleteOptions, first bool,
) (finalizers []string, changed bool) {
	if d.registry.config.NoCollector {
		return has, false
	}
	wanted := d.collectorFinalizer(has, options, first)
	own := func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	}
	finalizers = slices.DeleteFunc(slices.Clone(has), own)
	if wanted != "" {
		finalizers = append(finalizers, wanted)
	}
	if sets.New(finalizers...).Equal(sets.New(has...)) {
		return has, false // though some stand there twice
	}
	return finalizers, true
}

// collectorFinalizer is the one by which the collector is asked to do what the propagation policy says; "" if there is
// nothing to do. The first deletion of what is only marked by it (see markedFirst) takes "don't orphan" for "wait for
// the dependents".
func (d *deletion) collectorFinalizer(has []string, options *metav1.DeleteOptions, first bool) string {
	name := func(orphan, foreground bool) string {
		switch {
		case orphan:
			return metav1.FinalizerOrphanDependents
		case foreground:
			return metav1.FinalizerDeleteDependents
		}
		return ""
	}
	switch {
	case d.Kind.Strategy.NoDependents:
		return ""
	case options.OrphanDependents != nil:
		return name(*options.OrphanDependents, first)
	case options.PropagationPolicy != nil:
		policy := *options.PropagationPolicy
		return name(policy == metav1.DeletePropagationOrphan, policy == metav1.DeletePropagationForeground)
	}
	for _, f := range has { // the first one counts
		if f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents {
			return f
		}
	}
	return name(d.Kind.Strategy.OrphanByDefault, false)
}
