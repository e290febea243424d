package api

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds/equality"
)

// Parts tell where a kind keeps its spec and status, and make of that the preparing hooks that most kinds share.
// Status may be nil.
type Parts[P Object, Spec, Status any] struct {
	Spec   func(obj P) *Spec
	Status func(obj P) *Status
}

// Create drops the status and starts the generation.
func (p Parts[P, S, T]) Create(_ context.Context, obj P) {
	p.dropStatus(obj)
	obj.SetGeneration(1)
}

// Update keeps the status and raises the generation when the spec changed.
func (p Parts[P, S, T]) Update(ctx context.Context, new, old P) {
	p.KeepStatus(ctx, new, old)
	if !equality.Semantic(p.Spec(new), p.Spec(old)) {
		new.SetGeneration(old.GetGeneration() + 1)
	}
}

func (p Parts[P, S, T]) dropStatus(obj P) {
	if p.Status != nil {
		var zero T
		*p.Status(obj) = zero
	}
}

// KeepStatus makes an update leave the status as it was.
func (p Parts[P, S, T]) KeepStatus(_ context.Context, new, old P) {
	if p.Status != nil {
		*p.Status(new) = *p.Status(old)
	}
}

// PlainCreate drops the status of a kind that keeps no generation.
func (p Parts[P, S, T]) PlainCreate(_ context.Context, obj P) { p.dropStatus(obj) }

// StatusUpdate keeps the spec: it serves writes through /status.
func (p Parts[P, S, T]) StatusUpdate(_ context.Context, new, old P) {
	*p.Spec(new) = *p.Spec(old)
}

// StatusUpdateOnly also keeps the metadata that clients write.
func (p Parts[P, S, T]) StatusUpdateOnly(ctx context.Context, new, old P) {
	p.StatusUpdate(ctx, new, old)
	metav1.ResetObjectMetaForStatus(new, old)
}

// StatusUpdateAlone also keeps what no update changes, whatever it says: nothing of the metadata is looked at.
func (p Parts[P, S, T]) StatusUpdateAlone(ctx context.Context, new, old P) {
	p.StatusUpdateOnly(ctx, new, old)
	new.SetGenerateName(old.GetGenerateName())
	new.SetUID(old.GetUID())
	new.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
}

// StatusUpdateKeepLabels also keeps the labels, as the kinds of apps do.
func (p Parts[P, S, T]) StatusUpdateKeepLabels(ctx context.Context, new, old P) {
	p.StatusUpdate(ctx, new, old)
	new.SetLabels(old.GetLabels())
}
