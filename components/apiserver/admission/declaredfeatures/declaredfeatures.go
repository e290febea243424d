// Package declaredfeatures refuses changes of running pods that their node says it doesn't know how to make
// (KEP-5328: nodes declare features in their status).
package declaredfeatures

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	features "k8s.io/component-helpers/nodedeclaredfeatures"

	"quintet.dev/quintet/components/apiserver/objects"
)

// Name is the plug-in's.
const Name = "NodeDeclaredFeatureValidator"

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	objects objects.Reader
	version *version.Version
}

var _ admission.ValidationInterface = &Plugin{}

// New returns the plug-in for a server of that release, v1.2.3.
func New(reader objects.Reader, release string) (*Plugin, error) {
	v, err := version.Parse(release)
	if err != nil {
		return nil, err
	}
	return &Plugin{Handler: admission.NewHandler(admission.Update), objects: reader, version: v}, nil
}

// Validate holds what a change of a bound pod needs against what its node declares.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	sub := a.GetSubresource()
	if a.GetResource().GroupResource() != corev1.Resource("pods") || sub != "" && sub != "resize" {
		return nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("expected a pod but got a %T", a.GetObject()))
	}
	if pod.Spec.NodeName == "" {
		return nil
	}
	old, ok := a.GetOldObject().(*corev1.Pod)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("expected an old pod but got a %T", a.GetOldObject()))
	}
	if equality.Semantic.DeepEqual(old.Spec, pod.Spec) {
		return nil
	}
	if err := p.check(ctx, old, pod); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

func (p *Plugin) check(ctx context.Context, old, pod *corev1.Pod) error {
	needed, err := features.DefaultFramework.InferForPodUpdate(
		&features.PodInfo{Spec: &old.Spec, Status: &old.Status},
		&features.PodInfo{Spec: &pod.Spec, Status: &pod.Status}, p.version)
	if err != nil {
		return fmt.Errorf("failed to infer pod capability requirements: %w", err)
	}
	if needed.IsEmpty() {
		return nil
	}
	node, err := objects.As[*corev1.Node](p.objects.Get(ctx, corev1.Resource("nodes"), "", pod.Spec.NodeName))
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("node %q not found", pod.Spec.NodeName)
	}
	if err != nil {
		return fmt.Errorf("failed to get node %q: %w", pod.Spec.NodeName, err)
	}
	match, err := features.DefaultFramework.MatchNode(needed, node)
	if err != nil {
		return fmt.Errorf("failed to match pod requirements against node %q: %w", node.Name, err)
	}
	if !match.IsMatch {
		return errors.New("pod update requires features " + strings.Join(match.UnsatisfiedRequirements, ", ") +
			fmt.Sprintf(" which are not available on node %q", node.Name))
	}
	return nil
}
