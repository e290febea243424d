// Package ephemeralvolume creates the claims of pods' generic ephemeral volumes
// (https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#generic-ephemeral-volumes). A claim is owned by its
// pod, and deleted with it by the garbage collector.
package ephemeralvolume

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/ephemeral"

	"quintet.dev/quintet/components/controllers/runner"
)

// Controller creates claims.
type Controller struct {
	attempts, failures *prometheus.CounterVec
	env                runner.Env
	pods               corelisters.PodLister
	claims             corelisters.PersistentVolumeClaimLister
	loop               *runner.Loop[string]
}

// New makes the controller; it starts working with Run.
func New(env runner.Env) (*Controller, error) {
	core := env.Informers.Core().V1()
	pods, claims := core.Pods(), core.PersistentVolumeClaims()
	c := &Controller{env: env, pods: pods.Lister(), claims: claims.Lister(),
		attempts: env.Counter("ephemeral_volume_controller", "create_total", "Requests to create claims."),
		failures: env.Counter("ephemeral_volume_controller", "create_failures_total",
			"Requests to create claims that failed.")}
	c.loop = runner.NewLoop("ephemeral_volume", env, c.reconcile)
	if err := c.loop.Watch(pods.Informer(), runner.Handle(func(old, new *v1.Pod) {
		if new != nil && (old == nil || old.UID != new.UID) && wants(new) {
			c.loop.Add(runner.Key(new)) // volumes of a pod never change
		}
	})); err != nil {
		return nil, err
	}
	return c, c.loop.Watch(claims.Informer(), runner.Handle(func(old, new *v1.PersistentVolumeClaim) {
		owner := metav1.GetControllerOfNoCopy(runner.Last(old, new))
		if new == nil && owner != nil && owner.Kind == "Pod" {
			c.loop.Add(old.Namespace + "/" + owner.Name) // which may need it still
		}
	}))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// wants tells whether a pod is to have claims.
func wants(pod *v1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Ephemeral != nil {
			return true
		}
	}
	return false
}

func (c *Controller) reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	pod, err := c.pods.Pods(namespace).Get(name)
	if err != nil {
		return runner.IgnoreGone(err)
	}
	if !wants(pod) {
		return nil
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.Ephemeral == nil {
			continue
		}
		if err := c.ensure(ctx, pod, volume); err != nil {
			c.env.Events.Event(pod, v1.EventTypeWarning, "FailedBinding",
				fmt.Sprintf("ephemeral volume %s: %v", volume.Name, err))
			return fmt.Errorf("pod %s, ephemeral volume %s: %w", key, volume.Name, err)
		}
	}
	return nil
}

// ensure creates the claim of a volume, unless it is there. A claim of its name that isn't the pod's is an error.
func (c *Controller) ensure(ctx context.Context, pod *v1.Pod, volume *v1.Volume) error {
	wanted := claimFor(pod, volume)
	claim, err := c.claims.PersistentVolumeClaims(pod.Namespace).Get(wanted.Name)
	if err == nil {
		return ephemeral.VolumeIsForPod(pod, claim)
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	c.attempts.WithLabelValues().Inc()
	_, err = c.env.Client.CoreV1().PersistentVolumeClaims(pod.Namespace).Create(ctx, wanted, metav1.CreateOptions{})
	if err != nil {
		c.failures.WithLabelValues().Inc()
		return fmt.Errorf("create PVC %s: %w", wanted.Name, err)
	}
	return nil
}

// claimFor returns the claim that the volume's template describes.
func claimFor(pod *v1.Pod, volume *v1.Volume) *v1.PersistentVolumeClaim {
	template := volume.Ephemeral.VolumeClaimTemplate
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: ephemeral.VolumeClaimName(pod, volume),
			Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))},
		},
		Spec: *template.Spec.DeepCopy(),
	}
}
