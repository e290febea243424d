package commit

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/components/scheduler/queue"
)

// BinderName is the name of DefaultBinder.
const BinderName = "DefaultBinder"

// DefaultBinder is the Bind plug-in that writes a Binding.
type DefaultBinder struct{ Client kubernetes.Interface }

// Name returns BinderName.
func (*DefaultBinder) Name() string { return BinderName }

// Hints are none: it refuses no pods.
func (*DefaultBinder) Hints() []queue.Hint { return nil }

// Bind takes every pod.
func (b *DefaultBinder) Bind(ctx context.Context, p *Placement) (bool, *Status) {
	obj := p.Pod.Obj
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: obj.Namespace, Name: obj.Name, UID: obj.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: p.Node},
	}
	if err := b.Client.CoreV1().Pods(obj.Namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		return true, Failed(BinderName, err)
	}
	return true, nil
}
