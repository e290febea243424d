package storageprotection

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/runner"
)

const byClaim = "pods-by-claim"

// Claims protects PersistentVolumeClaims.
type Claims struct {
	env    runner.Env
	claims corelisters.PersistentVolumeClaimLister
	pods   cache.Indexer
	loop   *runner.Loop[string]
}

// NewClaims makes the controller; it starts working with Run.
func NewClaims(env runner.Env) (*Claims, error) {
	core := env.Informers.Core().V1()
	claims, all := core.PersistentVolumeClaims(), core.Pods().Informer()
	if err := all.AddIndexers(cache.Indexers{byClaim: claimKeys}); err != nil {
		return nil, err
	}
	c := &Claims{env: env, claims: claims.Lister(), pods: all.GetIndexer()}
	c.loop = runner.NewLoop("pvcprotection", env, c.reconcile)
	if err := c.loop.Watch(claims.Informer(), runner.Handle(func(_, new *v1.PersistentVolumeClaim) {
		if new != nil && decide(new, claimFinalizer) != keep {
			c.loop.Add(runner.Key(new))
		}
	})); err != nil {
		return nil, err
	}
	return c, c.loop.Watch(all, runner.Handle(c.podChanged))
}

// Run works until ctx ends.
func (c *Claims) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func claimKeys(obj any) ([]string, error) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return nil, nil
	}
	names := claimsOf(pod)
	for i := range names {
		names[i] = pod.Namespace + "/" + names[i]
	}
	return names, nil
}

// podChanged enqueues the claims that the pod may no longer use.
func (c *Claims) podChanged(old, new *v1.Pod) {
	replaced := old != nil && new != nil && old.UID != new.UID
	if new != nil && !replaced && new.Spec.NodeName != "" && !pods.Ended(new) {
		return
	}
	for _, pod := range []*v1.Pod{old, new} {
		if pod == nil {
			continue
		}
		for _, name := range claimsOf(pod) {
			if claim, err := c.claims.PersistentVolumeClaims(pod.Namespace).Get(name); err == nil &&
				decide(claim, claimFinalizer) == remove {
				c.loop.Add(runner.Key(claim))
			}
		}
	}
}

func (c *Claims) reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	claim, err := c.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return runner.IgnoreGone(err)
	}
	todo := decide(claim, claimFinalizer)
	if todo == keep {
		return nil
	}
	if todo == remove {
		used, err := c.used(ctx, claim)
		if err != nil || used {
			return err
		}
	}
	changed := claim.DeepCopy()
	changed.Finalizers = finalizers(claim, claimFinalizer, todo)
	_, err = c.env.Client.CoreV1().PersistentVolumeClaims(namespace).Update(ctx, changed, metav1.UpdateOptions{})
	if err = runner.IgnoreGone(err); err != nil {
		return fmt.Errorf("finalizer of claim %s: %w", key, err)
	}
	return nil
}

// used reads from the informer and, if it has no user, from the API server: a pod may have just been bound.
func (c *Claims) used(ctx context.Context, claim *v1.PersistentVolumeClaim) (bool, error) {
	known, err := c.pods.ByIndex(byClaim, runner.Key(claim))
	if err != nil {
		return false, err
	}
	for _, obj := range known {
		if pod, ok := obj.(*v1.Pod); ok && uses(pod, claim) {
			return true, nil
		}
	}
	stored, err := c.env.Client.CoreV1().Pods(claim.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("pods that may use claim %s: %w", runner.Key(claim), err)
	}
	return slices.ContainsFunc(stored.Items, func(pod v1.Pod) bool { return uses(&pod, claim) }), nil
}
