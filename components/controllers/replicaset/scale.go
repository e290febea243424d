package replicaset

import (
	"context"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/controllers/pods"
)

// scale creates or deletes what p says and returns the first failure.
func (c *Controller) scale(ctx context.Context, key string, set *apps.ReplicaSet, p plan) error {
	if p.create > 0 {
		ref := *metav1.NewControllerRef(set, c.sets.kind())
		return c.control().Create(ctx, key, set, p.create, func(int) *v1.Pod {
			return pods.FromTemplate(&set.Spec.Template, set, ref)
		})
	}
	for _, ratio := range p.ages {
		c.ages.Observe(ratio)
	}
	return c.control().Delete(ctx, key, set, p.delete)
}
