package job

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/runner"
)

func (c *Controller) apply(ctx context.Context, key string, job *batch.Job, p plan) error {
	if err := c.writeStatus(ctx, job, p.status); err != nil {
		return fmt.Errorf("update status of job %s: %w", key, err)
	}
	for _, e := range p.events {
		c.env.Events.Event(job, e.kind, e.reason, e.message)
	}
	err := pods.First(pods.Together(len(p.release), func(i int) error { return c.release(ctx, p.release[i]) }))
	if err != nil {
		return fmt.Errorf("count pods of job %s: %w", key, err)
	}
	if err := c.delete(ctx, key, job, p.delete); err != nil {
		return fmt.Errorf("delete pods of job %s: %w", key, err)
	}
	if err := c.create(ctx, key, job, p.create); err != nil {
		return fmt.Errorf("create pods of job %s: %w", key, err)
	}
	return nil
}

// release takes the tracking finalizer off a pod.
func (c *Controller) release(ctx context.Context, pod *v1.Pod) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"$deleteFromPrimitiveList/finalizers": []string{batch.JobTrackingFinalizer},
		"uid":                                 pod.UID,
	}})
	if err != nil {
		return err
	}
	_, err = c.env.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return runner.IgnoreGone(err)
}

func (c *Controller) delete(ctx context.Context, key string, job *batch.Job, doomed []*v1.Pod) error {
	for _, pod := range doomed {
		c.pending.ExpectDeletions(key, pod.UID)
	}
	return pods.First(pods.Together(len(doomed), func(i int) error {
		pod := doomed[i]
		err := c.env.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
		})
		if err == nil {
			c.env.Events.Eventf(job, v1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v", pod.Name)
			return nil
		}
		c.pending.DeletionObserved(key, pod.UID)
		if err = runner.IgnoreGone(err); err != nil {
			c.env.Events.Eventf(job, v1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
		}
		return err
	}))
}

func (c *Controller) create(ctx context.Context, key string, job *batch.Job, wanted []newPod) error {
	c.pending.ExpectCreations(key, len(wanted))
	_, tried, err := pods.SlowStart(len(wanted), func(i int) error {
		created, err := c.env.Client.CoreV1().Pods(job.Namespace).Create(ctx, makePod(job, wanted[i]), metav1.CreateOptions{})
		if err == nil {
			c.env.Events.Eventf(job, v1.EventTypeNormal, "SuccessfulCreate", "Created pod: %v", created.Name)
			return nil
		}
		c.pending.CreationObserved(key)
		if apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) {
			return nil
		}
		c.env.Events.Eventf(job, v1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
		return err
	})
	for range len(wanted) - tried {
		c.pending.CreationObserved(key)
	}
	return err
}

// makePod makes a pod of the job; those of indexed jobs learn their index from a label, an annotation, the
// environment and their host name.
func makePod(job *batch.Job, wanted newPod) *v1.Pod {
	pod := pods.FromTemplate(&job.Spec.Template, job, *metav1.NewControllerRef(job, kind))
	pod.Finalizers = append(pod.Finalizers, batch.JobTrackingFinalizer)
	if wanted.index < 0 {
		return pod
	}
	index := strconv.Itoa(wanted.index)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Annotations[batch.JobCompletionIndexAnnotation] = index
	pod.Labels[batch.JobCompletionIndexAnnotation] = index
	if job.Spec.BackoffLimitPerIndex != nil {
		pod.Annotations[batch.JobIndexFailureCountAnnotation] = strconv.Itoa(wanted.failures)
	}
	pod.Spec.Hostname = job.Name + "-" + index
	pod.GenerateName = indexedPrefix(job.Name, index)
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			addIndexVariable(&containers[i])
		}
	}
	return pod
}

// indexedPrefix is what the names of the pods of an index begin with: what the server appends leaves a label.
func indexedPrefix(job, index string) string {
	const room = validation.DNS1123LabelMaxLength - 5
	return job[:min(len(job), room-len(index)-2)] + "-" + index + "-"
}

const indexVariable = "JOB_COMPLETION_INDEX"

func addIndexVariable(container *v1.Container) {
	for _, variable := range container.Env {
		if variable.Name == indexVariable {
			return
		}
	}
	container.Env = append(container.Env, v1.EnvVar{Name: indexVariable, ValueFrom: &v1.EnvVarSource{
		FieldRef: &v1.ObjectFieldSelector{FieldPath: fmt.Sprintf("metadata.labels['%s']", batch.JobCompletionIndexAnnotation)},
	}})
}
