package namespace

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// outcome is what one round of deletion found.
type outcome struct {
	// discovery, parsing and deletion are what went wrong, each in words.
	discovery, parsing, deletion []string
	// remaining counts objects by resource, finalizers by name.
	remaining  map[schema.GroupVersionResource]int
	finalizers map[string]int
	// pods is how many pods remain, for which everything else waits: then the conditions do not count what remains.
	pods int
}

func (o *outcome) failed() bool {
	return len(o.discovery)+len(o.parsing)+len(o.deletion) > 0
}

func (o *outcome) left() bool { return o.objects() > 0 }

// objects is how many remain.
func (o *outcome) objects() int {
	n := o.pods
	for _, remaining := range o.remaining {
		n += remaining
	}
	return n
}

// conditions are the ones Kubernetes shows on a namespace that is going, in their documented words.
func conditions(current []v1.NamespaceCondition, o *outcome, now metav1.Time) []v1.NamespaceCondition {
	next := slices.Clone(current)
	set := func(t v1.NamespaceConditionType, problem, badReason, goodReason, goodMessage string) {
		c := v1.NamespaceCondition{Type: t, Status: v1.ConditionFalse, Reason: goodReason, Message: goodMessage,
			LastTransitionTime: now}
		if problem != "" {
			c.Status, c.Reason, c.Message = v1.ConditionTrue, badReason, problem
		}
		at := slices.IndexFunc(next, func(old v1.NamespaceCondition) bool { return old.Type == t })
		if at < 0 {
			next = append(next, c)
			return
		}
		if next[at].Status == c.Status && next[at].Reason == c.Reason && next[at].Message == c.Message {
			return
		}
		if next[at].Status == c.Status {
			c.LastTransitionTime = next[at].LastTransitionTime
		}
		next[at] = c
	}
	set(v1.NamespaceDeletionDiscoveryFailure, list("", o.discovery),
		"DiscoveryFailed", "ResourcesDiscovered", "All resources successfully discovered")
	set(v1.NamespaceDeletionGVParsingFailure, list("", o.parsing),
		"GroupVersionParsingFailed", "ParsedGroupVersions", "All legacy kube types successfully parsed")
	set(v1.NamespaceDeletionContentFailure, list("Failed to delete all resource types, %d remaining: ", o.deletion),
		"ContentDeletionFailed", "ContentDeleted", "All content successfully deleted, may be waiting on finalization")
	set(v1.NamespaceContentRemaining, resources(o.remaining),
		"SomeResourcesRemain", "ContentRemoved", "All content successfully removed")
	set(v1.NamespaceFinalizersRemaining, finalizers(o.finalizers),
		"SomeFinalizersRemain", "ContentHasNoFinalizers", "All content-preserving finalizers finished")
	return next
}

func list(heading string, problems []string) string {
	if len(problems) == 0 {
		return ""
	}
	sorted := slices.Sorted(slices.Values(problems))
	if strings.Contains(heading, "%d") {
		heading = fmt.Sprintf(heading, len(problems))
	}
	return heading + strings.Join(sorted, ", ")
}

func resources(remaining map[schema.GroupVersionResource]int) string {
	var parts []string
	for resource, count := range remaining {
		if count > 0 {
			parts = append(parts, fmt.Sprintf("%s.%s has %d resource instances", resource.Resource,
				resource.Group, count))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	return "Some resources are remaining: " + strings.Join(parts, ", ")
}

func finalizers(found map[string]int) string {
	var parts []string
	for name, count := range found {
		parts = append(parts, fmt.Sprintf("%s in %d resource instances", name, count))
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	return "Some content in the namespace has finalizers remaining: " + strings.Join(parts, ", ")
}
