package noderestriction

import (
	"context"
	"fmt"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

// admitPodRequest: a node asks for certificates of pods that run on it only, and tells the truth of them. Errors that
// caches which lag behind may cause are none of access: a client that sees them may try again.
func (p *Plugin) admitPodRequest(ctx context.Context, nodeName string, a admission.Attributes) error {
	if a.GetOperation() != admission.Create {
		return forbid(a, "unexpected operation %v", a.GetOperation())
	}
	if a.GetSubresource() != "" {
		return forbid(a, "unexpected subresource %v", a.GetSubresource())
	}
	request, ok := a.GetObject().(*certificatesv1beta1.PodCertificateRequest)
	if !ok {
		return unexpected(a)
	}
	s := &request.Spec
	if string(s.NodeName) != nodeName {
		return forbid(a, "PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q", s.NodeName,
			nodeName)
	}
	r := &podRequest{plugin: p, attributes: a, spec: s, pod: a.GetNamespace() + "/" + s.PodName}
	if err := r.checkNode(ctx); err != nil {
		return err
	}
	pod, err := r.checkPod(ctx)
	if err != nil {
		return err
	}
	return r.checkAccount(ctx, pod)
}

// podRequest is a request for a pod's certificate that is compared with what there is.
type podRequest struct {
	plugin     *Plugin
	attributes admission.Attributes
	spec       *certificatesv1beta1.PodCertificateRequestSpec
	pod        string // namespace/name
}

// named returns an object that a request names. what is the kind in words.
func named[T api.Object](ctx context.Context, r *podRequest, resource schema.GroupResource, what, namespace,
	name string) (T, error) {
	obj, err := objects.As[T](r.plugin.objects.Get(ctx, resource, namespace, name))
	if apierrors.IsNotFound(err) {
		obj, err = objects.As[T](r.plugin.objects.Live(ctx, resource, namespace, name))
	}
	shown := name
	if namespace != "" {
		shown = namespace + "/" + name
	}
	switch {
	case err == nil:
		return obj, nil
	case apierrors.IsNotFound(err): // which is not the answer: clients would take it for the request's
		return obj, fmt.Errorf("while retrieving %s %q named in the PodCertificateRequest: %v", what, shown, err)
	}
	return obj, forbid(r.attributes, "while retrieving %s %q named in the PodCertificateRequest: %w", what, shown, err)
}

func (r *podRequest) checkNode(ctx context.Context) error {
	node, err := named[*corev1.Node](ctx, r, corev1.Resource("nodes"), "node", "", string(r.spec.NodeName))
	if err == nil && node.UID != r.spec.NodeUID {
		err = fmt.Errorf("PodCertificateRequest for pod %q names node UID %q, inconsistent with the running node (%q)",
			r.pod, r.spec.NodeUID, node.UID)
	}
	return err
}

func (r *podRequest) checkPod(ctx context.Context) (*corev1.Pod, error) {
	pod, err := named[*corev1.Pod](ctx, r, corev1.Resource("pods"), "pod", r.attributes.GetNamespace(), r.spec.PodName)
	if err != nil {
		return nil, err
	}
	if pod.UID != r.spec.PodUID {
		return nil, fmt.Errorf("PodCertificateRequest for pod %q contains pod UID (%q) which differs from running pod %q",
			r.pod, r.spec.PodUID, pod.UID)
	}
	if pod.Spec.NodeName != string(r.spec.NodeName) {
		return nil, forbid(r.attributes, "pod %q is not running on node %q named in the PodCertificateRequest", r.pod,
			r.spec.NodeName)
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return nil, forbid(r.attributes, "pod %q is a mirror pod", r.pod)
	}
	return pod, nil
}

func (r *podRequest) checkAccount(ctx context.Context, pod *corev1.Pod) error {
	name := r.spec.ServiceAccountName
	if name != pod.Spec.ServiceAccountName {
		return forbid(r.attributes,
			"PodCertificateRequest for pod %q contains serviceAccountName (%q) that differs from running pod (%q)", r.pod,
			name, pod.Spec.ServiceAccountName)
	}
	account, err := named[*corev1.ServiceAccount](ctx, r, corev1.Resource("serviceaccounts"), "service account",
		r.attributes.GetNamespace(), name)
	if err != nil {
		return err
	}
	if account.UID != r.spec.ServiceAccountUID {
		return fmt.Errorf("PodCertificateRequest for pod %q names service account UID %q, which differs from the "+
			"running service account (%q)", r.pod, r.spec.ServiceAccountUID, account.UID)
	}
	return nil
}
