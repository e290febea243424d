// Package resources tells the names of resources apart
// (https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources).
package resources

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Native reports whether a resource is Kubernetes' own: one without a domain, or with kubernetes.io in it.
func Native(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// Extended reports whether the name is that of a vendor's resource. The names under which quotas charge requests are
// none, nor are those that would be too long, or malformed, as such a name.
func Extended(name corev1.ResourceName) bool {
	return !Native(name) && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}
