package suite

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// probeTimeout is how long a component may take to show that it runs.
const probeTimeout = 10 * time.Second

// probe detects which components run by their effects: the controller manager creates the default service account of a
// new namespace, the scheduler marks a pod that fits no node as unschedulable. A single instance needs no Lease.
func (c *Cluster) probe(ctx context.Context) error {
	namespaces := c.Client.CoreV1().Namespaces()
	space, err := namespaces.Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conformance-probe-"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = namespaces.Delete(context.WithoutCancel(ctx), space.Name, metav1.DeleteOptions{}) }()

	accounts := c.Client.CoreV1().ServiceAccounts(space.Name)
	c.Features[HasControllers], err = c.shows(ctx, HasControllers, func(ctx context.Context) (bool, error) {
		_, err := accounts.Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	if err := c.ensureServiceAccount(ctx, space.Name); err != nil {
		return err
	}
	pods := c.Client.CoreV1().Pods(space.Name)
	t := &T{Cluster: c, Namespace: space.Name}
	lost := t.Pod("probe")
	lost.Spec.NodeSelector = map[string]string{"conformance.quintet.dev/nowhere": space.Name}
	if _, err := pods.Create(ctx, lost, metav1.CreateOptions{}); err != nil {
		return err
	}
	c.Features[HasScheduler], err = c.shows(ctx, HasScheduler, func(ctx context.Context) (bool, error) {
		p, err := pods.Get(ctx, lost.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, condition := range p.Status.Conditions {
			if condition.Type == corev1.PodScheduled {
				return true, nil
			}
		}
		return false, nil
	})
	return err
}

// shows reports whether a feature shows its effect in time. One that is absent is not waited for, nor is one whose
// component has ended.
func (c *Cluster) shows(ctx context.Context, feature Feature, effect wait.ConditionWithContextFunc) (bool, error) {
	if c.Absent[feature] {
		return false, nil
	}
	ended := false
	found, err := comes(ctx, func(ctx context.Context) (bool, error) {
		ended = c.ended(providers[feature]) != nil
		if ended {
			return true, nil
		}
		return effect(ctx)
	})
	return found && !ended, err
}

// comes reports whether a condition comes to hold in time.
func comes(ctx context.Context, condition wait.ConditionWithContextFunc) (bool, error) {
	return comesWithin(ctx, probeTimeout, condition)
}

func comesWithin(ctx context.Context, timeout time.Duration, condition wait.ConditionWithContextFunc) (bool, error) {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, timeout, true, condition)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}
