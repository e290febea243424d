package bootstrap

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (b *Bootstrap) namespaceSteps() (steps []step) {
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic,
		corev1.NamespaceNodeLease} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		steps = append(steps, step{"namespace " + name, func(ctx context.Context) error {
			return b.writer.createMissing(ctx, corev1.Resource("namespaces"), namespace)
		}})
	}
	return steps
}

// keepNamespaces recreates deleted system namespaces: kube-node-lease isn't protected from deletion.
func (b *Bootstrap) keepNamespaces(ctx context.Context) error {
	return takeAll(ctx, b.namespaceSteps())
}
