// Package podsecurity holds pods to the security level that their namespace is labeled with
// (https://kubernetes.io/docs/concepts/security/pod-security-admission/).
package podsecurity

import (
	"context"
	"errors"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	security "k8s.io/pod-security-admission/admission"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
	"k8s.io/pod-security-admission/policy"

	"quintet.dev/quintet/components/apiserver/objects"
)

// Name is the plug-in's.
const Name = "PodSecurity"

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	delegate  *security.Admission
	extractor security.DefaultPodSpecExtractor
}

var _ admission.ValidationInterface = &Plugin{}

// New returns the plug-in with its configuration (PodSecurityConfiguration); without one, every level is privileged
// unless a namespace says otherwise. recorder counts decisions; it may be nil.
func New(reader objects.Reader, file []byte, recorder metrics.Recorder) (*Plugin, error) {
	if recorder == nil {
		recorder = unrecorded{}
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, err
	}
	configuration, err := load.LoadFromData(file)
	if err != nil {
		return nil, err
	}
	source := source{reader}
	delegate := &security.Admission{
		Configuration: configuration, Evaluator: evaluator, Metrics: recorder,
		PodSpecExtractor: security.DefaultPodSpecExtractor{}, NamespaceGetter: source, PodLister: source,
	}
	if err := delegate.CompleteConfiguration(); err != nil {
		return nil, err
	}
	if err := delegate.ValidateConfiguration(); err != nil {
		return nil, err
	}
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update), delegate: delegate}, nil
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	resource := a.GetResource().GroupResource()
	if resource != corev1.Resource("namespaces") && !p.extractor.HasPodSpec(resource) {
		return nil
	}
	if a.GetObject() == nil {
		return nil
	}
	response := p.delegate.Validate(ctx, attributes{a})
	for _, w := range response.Warnings {
		warning.AddWarning(ctx, "", w)
	}
	for k, v := range response.AuditAnnotations {
		if err := a.AddAnnotation(api.AuditAnnotationPrefix+k, v); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	if response.Allowed {
		return nil
	}
	if response.Result == nil {
		return admission.NewForbidden(a, errors.New("not allowed by PodSecurity"))
	}
	return &apierrors.StatusError{ErrStatus: *response.Result}
}

// attributes are a request as the evaluation wants it.
type attributes struct {
	admission.Attributes
}

func (a attributes) GetOperation() admissionv1.Operation {
	return admissionv1.Operation(a.Attributes.GetOperation())
}

func (a attributes) GetObject() (runtime.Object, error)    { return a.Attributes.GetObject(), nil }
func (a attributes) GetOldObject() (runtime.Object, error) { return a.Attributes.GetOldObject(), nil }
func (a attributes) GetUserName() string                   { return a.GetUserInfo().GetName() }

// source reads what the evaluation asks for.
type source struct {
	objects objects.Reader
}

func (s source) GetNamespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	namespace, err := objects.As[*corev1.Namespace](s.objects.Get(ctx, corev1.Resource("namespaces"), "", name))
	if apierrors.IsNotFound(err) {
		return objects.As[*corev1.Namespace](s.objects.Live(ctx, corev1.Resource("namespaces"), "", name))
	}
	return namespace, err
}

func (s source) ListPods(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	return objects.ListAs[*corev1.Pod](s.objects.List(ctx, corev1.Resource("pods"), namespace))
}

// unrecorded keeps no metrics.
type unrecorded struct{}

func (unrecorded) RecordEvaluation(metrics.Decision, api.LevelVersion, metrics.Mode, api.Attributes) {
}
func (unrecorded) RecordExemption(api.Attributes)   {}
func (unrecorded) RecordError(bool, api.Attributes) {}
