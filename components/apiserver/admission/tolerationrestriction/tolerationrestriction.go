// Package tolerationrestriction gives the pods of a namespace tolerations, and bounds which they may have
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#podtolerationrestriction).
package tolerationrestriction

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubectl/pkg/util/qos"

	"quintet.dev/quintet/components/apiserver/admission/pluginconfig"
	"quintet.dev/quintet/components/apiserver/admission/tolerations"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/components/apiserver/objects"
)

// Name is the plug-in's.
const Name = "PodTolerationRestriction"

// Annotations of a namespace, each a list of tolerations in JSON.
const (
	defaultTolerations = "scheduler.alpha.kubernetes.io/defaultTolerations"
	whitelist          = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

// Config is podtolerationrestriction.admission.k8s.io/v1alpha1: what holds for namespaces without the annotations.
type Config struct {
	metav1.TypeMeta `json:",inline"`
	Default         []corev1.Toleration `json:"default,omitempty"`
	Whitelist       []corev1.Toleration `json:"whitelist,omitempty"`
}

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	objects objects.Reader
	config  Config
}

var (
	_ admission.MutationInterface   = &Plugin{}
	_ admission.ValidationInterface = &Plugin{}
)

// New returns the plug-in with its configuration, which may be empty.
func New(reader objects.Reader, file []byte) (*Plugin, error) {
	p := &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update), objects: reader}
	if len(file) == 0 {
		return p, nil
	}
	if err := pluginconfig.Decode(file, "podtolerationrestriction.admission.k8s.io", []string{"v1alpha1"},
		&p.config); err != nil {
		return nil, err
	}
	path := field.NewPath("podtolerationrestriction")
	errs := slices.Concat(podspec.Tolerations(p.config.Default, path.Child("default")),
		podspec.Tolerations(p.config.Whitelist, path.Child("whitelist")))
	if len(errs) > 0 {
		return nil, fmt.Errorf("invalid config: %v", errs)
	}
	return p, nil
}

// Admit adds the tolerations of the namespace, and of pods that are not best effort.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil {
		return nil
	}
	var more []corev1.Toleration
	if a.GetOperation() == admission.Create {
		own, err := p.annotated(ctx, a.GetNamespace(), defaultTolerations)
		if err != nil {
			return err
		}
		if own == nil {
			own = p.config.Default
		}
		more = slices.Clone(own)
	}
	if qos.GetPodQOS(pod) != corev1.PodQOSBestEffort {
		more = append(more, corev1.Toleration{
			Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoSchedule,
		})
	}
	if len(more) > 0 {
		pod.Spec.Tolerations = tolerations.Merge(slices.Concat(pod.Spec.Tolerations, more))
	}
	return p.Validate(ctx, a, o)
}

// Validate holds the tolerations of a pod against those that its namespace allows.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil || len(pod.Spec.Tolerations) == 0 {
		return nil
	}
	scope := "namespace"
	allowed, err := p.annotated(ctx, a.GetNamespace(), whitelist)
	if err != nil {
		return err
	}
	if allowed == nil {
		allowed, scope = p.config.Whitelist, "cluster"
	}
	if len(allowed) == 0 {
		return nil
	}
	for _, t := range pod.Spec.Tolerations {
		if !slices.ContainsFunc(allowed, func(w corev1.Toleration) bool { return tolerations.Covers(w, t) }) {
			return fmt.Errorf("pod tolerations (possibly merged with namespace default tolerations) conflict with its %s "+
				"whitelist", scope)
		}
	}
	return nil
}

func podOf(a admission.Attributes) *corev1.Pod {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil
	}
	pod, _ := a.GetObject().(*corev1.Pod)
	return pod
}

// annotated reads the tolerations of an annotation: nil if there is none, and not nil if it is empty.
func (p *Plugin) annotated(ctx context.Context, name, annotation string) ([]corev1.Toleration, error) {
	namespaces := corev1.Resource("namespaces")
	namespace, err := objects.As[*corev1.Namespace](p.objects.Get(ctx, namespaces, "", name))
	if apierrors.IsNotFound(err) {
		namespace, err = objects.As[*corev1.Namespace](p.objects.Live(ctx, namespaces, "", name))
	}
	if apierrors.IsNotFound(err) {
		return nil, err
	}
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	text, ok := namespace.Annotations[annotation]
	if !ok {
		return nil, nil
	}
	out := []corev1.Toleration{}
	if text == "" {
		return out, nil
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, err
	}
	if out == nil { // the text is null
		out = []corev1.Toleration{}
	}
	return out, nil
}
