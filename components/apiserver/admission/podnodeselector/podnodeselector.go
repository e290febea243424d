// Package podnodeselector ties the pods of a namespace to nodes
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#podnodeselector).
package podnodeselector

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/admission/pluginconfig"
	"quintet.dev/quintet/components/apiserver/objects"
)

// Name is the plug-in's.
const Name = "PodNodeSelector"

// annotation of a namespace has the selector of its pods.
const annotation = "scheduler.alpha.kubernetes.io/node-selector"

// byDefault names, in the configuration, the selector of namespaces without the annotation.
const byDefault = "clusterDefaultNodeSelector"

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	objects objects.Reader
	// selectors are byDefault's, and what pods of a namespace may select.
	selectors map[string]labels.Set
}

var (
	_ admission.MutationInterface   = Plugin{}
	_ admission.ValidationInterface = Plugin{}
)

// New returns the plug-in with its configuration: podNodeSelectorPluginConfig is a map from a namespace, or
// clusterDefaultNodeSelector, to a selector.
func New(reader objects.Reader, file []byte) (Plugin, error) {
	p := Plugin{admission.NewHandler(admission.Create), reader, map[string]labels.Set{}}
	var config struct {
		PodNodeSelectorPluginConfig map[string]string `json:"podNodeSelectorPluginConfig"`
	}
	if err := pluginconfig.DecodeUnversioned(file, &config); err != nil {
		return p, err
	}
	for of, text := range config.PodNodeSelectorPluginConfig {
		selector, err := labels.ConvertSelectorToLabelsMap(text)
		if err != nil {
			return p, fmt.Errorf("podNodeSelectorPluginConfig[%s]: %w", of, err)
		}
		p.selectors[of] = selector
	}
	return p, nil
}

// Admit implements admission.MutationInterface: it adds the namespace's selector to the pod's.
func (p Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil {
		return nil
	}
	wanted, err := p.wanted(ctx, a, pod)
	if err != nil {
		return err
	}
	pod.Spec.NodeSelector = labels.Merge(wanted, pod.Spec.NodeSelector)
	return p.allowed(a, pod)
}

// Validate implements admission.ValidationInterface.
func (p Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil {
		return nil
	}
	if _, err := p.wanted(ctx, a, pod); err != nil {
		return err
	}
	return p.allowed(a, pod)
}

func podOf(a admission.Attributes) *corev1.Pod {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil
	}
	pod, _ := a.GetObject().(*corev1.Pod)
	return pod
}

// wanted is the namespace's selector, which the pod's must not contradict.
func (p Plugin) wanted(ctx context.Context, a admission.Attributes, pod *corev1.Pod) (labels.Set, error) {
	namespaces := corev1.Resource("namespaces")
	namespace, err := objects.As[*corev1.Namespace](p.objects.Get(ctx, namespaces, "", a.GetNamespace()))
	if apierrors.IsNotFound(err) {
		namespace, err = objects.As[*corev1.Namespace](p.objects.Live(ctx, namespaces, "", a.GetNamespace()))
	}
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	wanted := p.selectors[byDefault]
	if text, own := namespace.Annotations[annotation]; own {
		if wanted, err = labels.ConvertSelectorToLabelsMap(text); err != nil {
			return nil, err
		}
	}
	if labels.Conflicts(wanted, pod.Spec.NodeSelector) {
		return nil, refuse(a, pod, "pod node label selector conflicts with its namespace node label selector")
	}
	return wanted, nil
}

// allowed holds the pod's selector against what the configuration has for the namespace.
func (p Plugin) allowed(a admission.Attributes, pod *corev1.Pod) error {
	list := p.selectors[a.GetNamespace()]
	if len(list) == 0 {
		return nil
	}
	for key, value := range pod.Spec.NodeSelector {
		if has, listed := list[key]; !listed || has != value {
			return refuse(a, pod, "pod node label selector labels conflict with its namespace whitelist")
		}
	}
	return nil
}

func refuse(a admission.Attributes, pod *corev1.Pod, why string) error {
	return apierrors.NewForbidden(a.GetResource().GroupResource(), pod.Name, errors.New(why))
}
