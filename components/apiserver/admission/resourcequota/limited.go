package resourcequota

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/admission"
	config "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota/install"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota/validation"

	"quintet.dev/quintet/internal/quotas"
)

// limited are the resources that may be used only where a quota covers them
// (https://kubernetes.io/docs/concepts/policy/resource-quotas/#limit-priority-class-consumption-by-default).
type limited []config.LimitedResource

// readLimited reads a ResourceQuotaConfiguration; an empty file limits nothing.
func readLimited(file []byte) (limited, error) {
	if len(file) == 0 {
		return nil, nil
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	decoded, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), file)
	if err != nil {
		return nil, err
	}
	c, ok := decoded.(*config.Configuration)
	if !ok {
		return nil, fmt.Errorf("unexpected type: %T", decoded)
	}
	return c.LimitedResources, validation.ValidateConfiguration(c).ToAggregate()
}

// check refuses an object that uses of what is limited, of which no quota that is about it tells. It is asked of those
// that use more than before.
func (l limited) check(a admission.Attributes, u use, about, all []*corev1.ResourceQuota) error {
	if len(l) == 0 {
		return nil
	}
	wanted := l.names(a.GetResource().GroupResource(), u.now)
	for _, q := range about {
		wanted = slices.DeleteFunc(wanted,
			func(name corev1.ResourceName) bool { _, told := q.Status.Hard[name]; return told })
	}
	if len(wanted) > 0 {
		return admission.NewForbidden(a,
			fmt.Errorf("insufficient quota to consume: %v", join(slices.Compact(slices.Sorted(slices.Values(wanted))))))
	}
	if scopes := l.uncovered(a.GetObject(), all); len(scopes) > 0 {
		return fmt.Errorf("insufficient quota to match these scopes: %v", scopes)
	}
	return nil
}

// names are what is limited of the usage of a resource.
func (l limited) names(of schema.GroupResource, usage corev1.ResourceList) (out []corev1.ResourceName) {
	for i := range l {
		if (schema.GroupResource{Group: l[i].APIGroup, Resource: l[i].Resource}) != of {
			continue
		}
		for name, q := range usage {
			if q.Sign() == 1 && slices.ContainsFunc(l[i].MatchContains,
				func(part string) bool { return strings.Contains(string(name), part) }) {
				out = append(out, name)
			}
		}
	}
	return out
}

// uncovered are the limited scopes that an object is in while no quota with that scope is about it.
func (l limited) uncovered(obj runtime.Object, all []*corev1.ResourceQuota) []corev1.ScopedResourceSelectorRequirement {
	covered := map[corev1.ResourceQuotaScope]bool{}
	for _, q := range all {
		for _, s := range quotas.Scopes(q) {
			if quotas.Within(obj, &s) {
				covered[s.ScopeName] = true
			}
		}
	}
	var out []corev1.ScopedResourceSelectorRequirement
	for i := range l {
		for _, s := range l[i].MatchScopes {
			if quotas.Within(obj, &s) && !covered[s.ScopeName] {
				out = append(out, s)
			}
		}
	}
	return out
}
