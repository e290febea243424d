package bootstrap

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ensureTokenTracking notes since when uses of tokens in Secrets are recorded (KEP-2799).
func (b *Bootstrap) ensureTokenTracking(ctx context.Context) error {
	return b.createMissing(ctx, corev1.Resource("configmaps"), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-apiserver-legacy-service-account-token-tracking"},
		Data:       map[string]string{"since": b.cfg.Clock.Now().UTC().Format(time.DateOnly)},
	})
}
