package job

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
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
	err := pods.First(pods.Together(len(p.release), func(i int) error { return c.release(ctx, job, p.release[i]) }))
	if err != nil {
		return fmt.Errorf("count pods of job %s: %w", key, err)
	}
	if err := c.control().Delete(ctx, key, job, p.delete); err != nil {
		return fmt.Errorf("delete pods of job %s: %w", key, err)
	}
	if err := c.control().Create(ctx, key, job, len(p.create), func(i int) *v1.Pod {
		return makePod(job, p.create[i])
	}); err != nil {
		return fmt.Errorf("create pods of job %s: %w", key, err)
	}
	return nil
}

// release takes the tracking finalizer off a pod of job; nil if that is gone.
func (c *Controller) release(ctx context.Context, job *batch.Job, pod *v1.Pod) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"$deleteFromPrimitiveList/finalizers": []string{batch.JobTrackingFinalizer},
		"uid":                                 pod.UID,
	}})
	if err != nil {
		return err
	}
	control, key, owner := c.control(), "", types.UID("")
	if job == nil {
		control.Writes = nil // no caller waits
	} else {
		key, owner = runner.Key(job), job.UID
	}
	return runner.IgnoreGone(control.Patch(ctx, key, owner, pod, patch))
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
		FieldRef: &v1.ObjectFieldSelector{FieldPath: fmt.Sprintf("metadata.labels['%s']",
			batch.JobCompletionIndexAnnotation)},
	}})
}
