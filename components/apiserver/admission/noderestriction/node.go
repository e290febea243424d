package noderestriction

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"quintet.dev/quintet/components/apiserver/authz/node"
)

func (p *Plugin) admitNode(_ context.Context, nodeName string, a admission.Attributes) error {
	if name := a.GetName(); name != nodeName {
		return forbid(a, "node %q is not allowed to modify node %q", nodeName, name)
	}
	switch a.GetOperation() {
	case admission.Create:
		return admitNodeCreate(nodeName, a)
	case admission.Update:
		return admitNodeUpdate(nodeName, a)
	}
	return nil
}

func admitNodeCreate(nodeName string, a admission.Attributes) error {
	obj, ok := a.GetObject().(*corev1.Node)
	if !ok {
		return unexpected(a)
	}
	//lint:ignore SA1019 a node must not get what is out of use, either
	if obj.Spec.ConfigSource != nil {
		return forbid(a, "node %q is not allowed to create pods with a non-nil configSource", nodeName)
	}
	if labels := forbidden(changed(obj.Labels, nil)); len(labels) > 0 {
		return forbid(a, "node %q is not allowed to set the following labels: %s", nodeName, strings.Join(labels, ", "))
	}
	return nil
}

func admitNodeUpdate(nodeName string, a admission.Attributes) error {
	obj, ok := a.GetObject().(*corev1.Node)
	if !ok {
		return unexpected(a)
	}
	old, ok := a.GetOldObject().(*corev1.Node)
	if !ok {
		return forbid(a, "unexpected type %T", a.GetOldObject())
	}
	//lint:ignore SA1019 see above
	if source := obj.Spec.ConfigSource; source != nil && !equality.Semantic.DeepEqual(source, old.Spec.ConfigSource) {
		return forbid(a, "node %q is not allowed to update configSource to a new non-nil configSource", nodeName)
	}
	// Taints keep pods with special needs apart; with owner references the node could have itself deleted and recreated
	// without them.
	if !equality.Semantic.DeepEqual(obj.Spec.Taints, old.Spec.Taints) {
		return forbid(a, "node %q is not allowed to modify taints", nodeName)
	}
	if !equality.Semantic.DeepEqual(obj.OwnerReferences, old.OwnerReferences) {
		return forbid(a, "node %q is not allowed to modify ownerReferences", nodeName)
	}
	if labels := forbidden(changed(obj.Labels, old.Labels)); len(labels) > 0 {
		return forbid(a, "is not allowed to modify labels: %s", strings.Join(labels, ", "))
	}
	return nil
}

// changed lists the labels that one has and the other has not, or has with another value.
func changed(a, b map[string]string) []string {
	keys := map[string]bool{}
	for k, v := range a {
		if other, ok := b[k]; !ok || other != v {
			keys[k] = true
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			keys[k] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// forbidden picks the labels that no kubelet may touch: those set aside for administrators, and those of Kubernetes
// that are not the kubelet's.
func forbidden(labels []string) []string {
	var out []string
	for _, label := range labels {
		namespace, _, _ := strings.Cut(label, "/")
		if !strings.Contains(label, "/") {
			namespace = ""
		}
		if within(namespace, corev1.LabelNamespaceNodeRestriction) ||
			((within(namespace, "kubernetes.io") || within(namespace, "k8s.io")) &&
				!kubeletapis.IsKubeletLabel(label)) {
			out = append(out, label)
		}
	}
	return out
}

func within(namespace, domain string) bool {
	return namespace == domain || strings.HasSuffix(namespace, "."+domain)
}

// admitCSR: a node asks for certificates of its own name only.
func (p *Plugin) admitCSR(_ context.Context, nodeName string, a admission.Attributes) error {
	if a.GetOperation() != admission.Create || a.GetSubresource() != "" || p.anyName {
		return nil
	}
	csr, ok := a.GetObject().(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return unexpected(a)
	}
	if csr.Spec.SignerName != certificatesv1.KubeletServingSignerName &&
		csr.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return nil
	}
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return forbid(a, "unable to parse csr: PEM block type must be CERTIFICATE REQUEST")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return forbid(a, "unable to parse csr: %v", err)
	}
	if want := node.UserPrefix + nodeName; request.Subject.CommonName != want {
		return forbid(a, "can only create a node CSR with CN=%s", want)
	}
	return nil
}
