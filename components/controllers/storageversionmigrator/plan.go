package storageversionmigrator

import (
	"slices"
	"strings"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type migration = migrationv1beta1.StorageVersionMigration

// Reasons of conditions.
const (
	reasonRunning   = "MigrationRunning"
	reasonCompleted = "MigrationCompleted"
	reasonSucceeded = "StorageVersionMigrationSucceeded"
	reasonFailed    = "StorageVersionMigrationFailed"
)

// todo is the next step of the migrations of one resource. At most one of them runs at a time.
type todo struct {
	// ended are those that have an outcome and are still said to run.
	ended []*migration
	// running is the one to go on with, next the one to begin with; at most one of the two is set.
	running, next *migration
}

// plan decides that, of all migrations there are: the oldest that waits is the next.
func plan(all []*migration, resource metav1.GroupResource) todo {
	var out todo
	var waiting []*migration
	for _, m := range all {
		switch runs, over := is(m, migrationv1beta1.MigrationRunning), hasOutcome(m); {
		case m.Spec.Resource != resource:
		case runs && over:
			out.ended = append(out.ended, m)
		case runs:
			out.running = m
		case !over:
			waiting = append(waiting, m)
		}
	}
	if out.running == nil && len(waiting) > 0 {
		out.next = slices.MinFunc(waiting, func(a, b *migration) int {
			if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
				return c
			}
			return strings.Compare(a.Name, b.Name)
		})
	}
	return out
}

func is(m *migration, what migrationv1beta1.MigrationConditionType) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(what))
}

func hasOutcome(m *migration) bool {
	return is(m, migrationv1beta1.MigrationSucceeded) || is(m, migrationv1beta1.MigrationFailed)
}

// with is a copy of m with a condition that it hasn't got; one that it has stays.
func with(m *migration, what migrationv1beta1.MigrationConditionType, reason, message string,
	now metav1.Time) *migration {
	out := m.DeepCopy()
	if meta.FindStatusCondition(m.Status.Conditions, string(what)) == nil {
		out.Status.Conditions = append(out.Status.Conditions, metav1.Condition{
			Type: string(what), Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: now,
		})
	}
	return out
}

// stopped is a copy of m that doesn't run any more.
func stopped(m *migration, now metav1.Time) *migration {
	out := m.DeepCopy()
	meta.SetStatusCondition(&out.Status.Conditions, metav1.Condition{
		Type: string(migrationv1beta1.MigrationRunning), Status: metav1.ConditionFalse, Reason: reasonCompleted,
		Message: "Migration completed", ObservedGeneration: m.Generation, LastTransitionTime: now,
	})
	return out
}
