package kinds

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds/equality"
)

// parts tells where a kind keeps its spec and status, and makes of that the preparing hooks that most kinds share.
// status may be nil.
type parts[P Object, Spec, Status any] struct {
	spec   func(obj P) *Spec
	status func(obj P) *Status
}

// create drops the status and starts the generation.
func (p parts[P, S, T]) create(_ context.Context, obj P) {
	p.dropStatus(obj)
	obj.SetGeneration(1)
}

// update keeps the status and raises the generation when the spec changed.
func (p parts[P, S, T]) update(ctx context.Context, new, old P) {
	p.keepStatus(ctx, new, old)
	if !equality.Semantic(p.spec(new), p.spec(old)) {
		new.SetGeneration(old.GetGeneration() + 1)
	}
}

func (p parts[P, S, T]) dropStatus(obj P) {
	if p.status != nil {
		var zero T
		*p.status(obj) = zero
	}
}

func (p parts[P, S, T]) keepStatus(_ context.Context, new, old P) {
	if p.status != nil {
		*p.status(new) = *p.status(old)
	}
}

// plainCreate drops the status of a kind that keeps no generation.
func (p parts[P, S, T]) plainCreate(_ context.Context, obj P) { p.dropStatus(obj) }

// statusUpdate keeps the spec: it serves writes through /status.
func (p parts[P, S, T]) statusUpdate(_ context.Context, new, old P) {
	*p.spec(new) = *p.spec(old)
}

// statusUpdateOnly also keeps the metadata that clients write.
func (p parts[P, S, T]) statusUpdateOnly(ctx context.Context, new, old P) {
	p.statusUpdate(ctx, new, old)
	metav1.ResetObjectMetaForStatus(new, old)
}

// statusUpdateAlone also keeps what no update changes, whatever it says: nothing of the metadata is looked at.
func (p parts[P, S, T]) statusUpdateAlone(ctx context.Context, new, old P) {
	p.statusUpdateOnly(ctx, new, old)
	new.SetGenerateName(old.GetGenerateName())
	new.SetUID(old.GetUID())
	new.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
}

// statusUpdateKeepLabels also keeps the labels, as the kinds of apps do.
func (p parts[P, S, T]) statusUpdateKeepLabels(ctx context.Context, new, old P) {
	p.statusUpdate(ctx, new, old)
	new.SetLabels(old.GetLabels())
}
