// Package subresources answers the subresources of pods that change other things than the body they get: binding and
// eviction.
package subresources

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

var pods = schema.GroupResource{Resource: "pods"}

// Updater changes stored objects; see objects.Writer.
type Updater interface {
	Update(ctx context.Context, resource schema.GroupResource, namespace, name string,
		mutate func(api.Object) (api.Object, error)) (api.Object, error)
	UpdateStatus(ctx context.Context, resource schema.GroupResource, namespace, name string,
		mutate func(api.Object) (api.Object, error)) (api.Object, error)
}

// Admit asks validating admission whether something may be done that makes sense.
type Admit func(body runtime.Object) error

// Binder puts pods on nodes, for pods/binding and bindings.
type Binder struct {
	Objects interface {
		objects.Reader
		Updater
	}
	Clock clock.PassiveClock
	// Prefix of keys in the store, as conflicts name it.
	Prefix string
	// KeepNominated leaves the node that was wished for to pods that have got one.
	KeepNominated bool
	// NoLabels leaves the labels of bindings out.
	NoLabels bool
}

// Bind assigns the pod to the node that the binding names. name is that of the URL, or the binding's own where the URL
// has none. Errors are API status errors: Conflict when the pod has a node, is being deleted, or is gated.
func (b *Binder) Bind(ctx context.Context, namespace, name string, binding *corev1.Binding, dryRun bool,
	admit Admit) error {
	if binding.Name != name {
		return apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	if errs := validateBinding(binding); len(errs) > 0 {
		return plain(errs.ToAggregate().Error())
	}
	if err := admit(binding); err != nil {
		return err
	}
	if name == "" {
		return apierrors.NewBadRequest("Name parameter required.")
	}
	prefix := b.Prefix
	if dryRun {
		prefix = "" // as upstream's
	}
	assign := func(obj api.Object) (api.Object, error) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, apierrors.NewInternalError(fmt.Errorf("unexpected object: %T", obj))
		}
		if err := demands(binding, pod, prefix); err != nil {
			return nil, err
		}
		if err := b.assign(pod, binding); err != nil {
			return nil, err
		}
		return pod, nil
	}
	if dryRun {
		obj, err := b.Objects.Live(ctx, pods, namespace, name)
		if err != nil {
			return err
		}
		_, err = assign(obj.DeepCopyObject().(api.Object))
		return err
	}
	_, err := b.Objects.Update(ctx, pods, namespace, name, assign)
	return err
}

// plain is an error that upstream answers without a reason.
func plain(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: message,
	}}
}

func validateBinding(b *corev1.Binding) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("target")
	if b.Target.Kind != "" && b.Target.Kind != "Node" {
		errs = append(errs, field.NotSupported(at.Child("kind"), b.Target.Kind, []string{"Node", "<empty>"}))
	}
	if b.Target.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	return errs
}

// demands checks which pod, and which version of it, the binding is for.
func demands(binding *corev1.Binding, pod *corev1.Pod, prefix string) error {
	what, want, has := "UID", string(binding.UID), string(pod.UID)
	if want == "" || want == has {
		what, want, has = "ResourceVersion", binding.ResourceVersion, pod.ResourceVersion
	}
	if want == "" || want == has {
		return nil
	}
	key := path.Join("/", prefix, "pods", pod.Namespace, pod.Name)
	return apierrors.NewConflict(pods, pod.Name, apistorage.NewInvalidObjError(key,
		fmt.Sprintf("Precondition failed: %s in precondition: %v, %s in object meta: %v", what, want, what, has)))
}

func (b *Binder) assign(pod *corev1.Pod, binding *corev1.Binding) error {
	conflict := func(format string, args ...any) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, pod.Name,
			fmt.Errorf(format, args...))
	}
	if pod.DeletionTimestamp != nil {
		return conflict("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	}
	if pod.Spec.NodeName != "" {
		return conflict("pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	}
	if len(pod.Spec.SchedulingGates) != 0 {
		return conflict("pod %v has non-empty .spec.schedulingGates", pod.Name)
	}
	pod.Spec.NodeName = binding.Target.Name
	if !b.KeepNominated {
		pod.Status.NominatedNodeName = "" // it was a wish; now there is a fact
	}
	for k, v := range binding.Annotations {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[k] = v
	}
	if !b.NoLabels && len(binding.Labels) > 0 { // where the node stands (KEP-4742); the pod's own word doesn't count
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		maps.Copy(pod.Labels, binding.Labels)
	}
	setCondition(pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		metav1.NewTime(b.Clock.Now()))
	return nil
}

// setCondition puts a condition in its place; the time of its last transition changes only with its status.
func setCondition(pod *corev1.Pod, c corev1.PodCondition, now metav1.Time) {
	c.LastTransitionTime = now
	for i := range pod.Status.Conditions {
		old := &pod.Status.Conditions[i]
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		*old = c
		return
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}
