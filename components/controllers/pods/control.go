package pods

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"quintet.dev/quintet/components/controllers/consistency"
	"quintet.dev/quintet/components/controllers/expectations"
)

// Control creates and deletes the pods of owners, with the owner's events, and notes what informers have yet to show.
type Control struct {
	Client  kubernetes.Interface
	Events  record.EventRecorder
	Pending *expectations.Tracker
	// Writes are those that the owners' reconciliation waits to see.
	Writes *consistency.Writes
}

// Owner is whose pods they are. Key names it in the Tracker.
type Owner interface {
	runtime.Object
	metav1.Object
}

// errTerminating ends a slow start in a namespace that is being deleted.
var errTerminating = errors.New("the namespace is being deleted")

// Create creates count pods in the owner's namespace, slowly at first, and returns the first failure. In a namespace
// that is being deleted it stops at the first, which is no failure: all would be refused.
func (c Control) Create(ctx context.Context, key string, owner Owner, count int, pod func(i int) *v1.Pod) error {
	c.Pending.ExpectCreations(key, count)
	_, tried, err := SlowStart(count, func(i int) error {
		created, err := c.Client.CoreV1().Pods(owner.GetNamespace()).Create(ctx, pod(i), metav1.CreateOptions{})
		if err == nil {
			c.Writes.Wrote(key, owner.GetUID(), consistency.Pods, created.ResourceVersion)
			c.Events.Eventf(owner, v1.EventTypeNormal, "SuccessfulCreate", "Created pod: %v", created.Name)
			return nil
		}
		c.Pending.CreationObserved(key)
		if apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) {
			return errTerminating
		}
		c.Events.Eventf(owner, v1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
		return err
	})
	for range count - tried {
		c.Pending.CreationObserved(key)
	}
	if errors.Is(err, errTerminating) {
		return nil
	}
	return err
}

// Delete deletes pods, all at once, and returns the first failure; one that is gone already is none.
func (c Control) Delete(ctx context.Context, key string, owner Owner, doomed []*v1.Pod) error {
	for _, pod := range doomed {
		c.Pending.ExpectDeletions(key, pod.UID)
	}
	return First(Together(len(doomed), func(i int) error {
		pod := doomed[i]
		err := c.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		if err == nil {
			c.Events.Eventf(owner, v1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v", pod.Name)
			return nil
		}
		c.Pending.DeletionObserved(key, pod.UID)
		if apierrors.IsNotFound(err) {
			return nil
		}
		c.Events.Eventf(owner, v1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
		return err
	}))
}

// Patch applies a strategic merge patch to a pod, for the owner that key names.
func (c Control) Patch(ctx context.Context, key string, owner types.UID, pod *v1.Pod, patch []byte) error {
	patched, err := c.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{})
	if err != nil {
		return err
	}
	c.Writes.Wrote(key, owner, consistency.Pods, patched.ResourceVersion)
	return nil
}

// Patcher is Patch for one owner.
func (c Control) Patcher(key string, owner types.UID) func(ctx context.Context, pod *v1.Pod, patch []byte) error {
	return func(ctx context.Context, pod *v1.Pod, patch []byte) error {
		return c.Patch(ctx, key, owner, pod, patch)
	}
}
