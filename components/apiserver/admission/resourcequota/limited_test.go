package resourcequota

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

const limits = `apiVersion: apiserver.config.k8s.io/v1
kind: ResourceQuotaConfiguration
limitedResources:
- resource: pods
  matchContains: [cpu]
- resource: pods
  matchScopes: [{scopeName: PriorityClass, operator: In, values: [high]}]
`

// TestLimitedByDefault: what is limited can't be used without a quota for it.
func TestLimitedByDefault(t *testing.T) {
	high := pod(nil, nil)
	high.Spec.PriorityClassName = "high"
	forHigh := newQuota("high", list("pods", "5"), list("pods", "0"))
	forHigh.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
		{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpExists},
	}}
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		quotas []*corev1.ResourceQuota
		want   string
	}{
		"nothing limited": {pod: pod(list("memory", "1"), nil)},
		"no quota":        {pod: pod(list("cpu", "1"), nil), want: "insufficient quota to consume: cpu,requests.cpu"},
		"another quota": {pod: pod(list("cpu", "1"), nil),
			quotas: []*corev1.ResourceQuota{newQuota("q", list("cpu", "5"), list("cpu", "0"))},
			want:   "insufficient quota to consume: requests.cpu"},
		"two quotas": {pod: pod(list("cpu", "1"), nil),
			quotas: []*corev1.ResourceQuota{newQuota("q", list("cpu", "5"), list("cpu", "0")),
				newQuota("r", list("requests.cpu", "5"), list("requests.cpu", "0"))}},
		"scope, no quota":   {pod: high, want: "insufficient quota to match these scopes: [{PriorityClass In [high]}]"},
		"scope and a quota": {pod: high, quotas: []*corev1.ResourceQuota{forHigh}},
	} {
		store := &objectstest.Store{}
		for _, q := range c.quotas {
			store.Put(kind, q)
		}
		err := limit(store, limits, corev1.Resource("pods"), c.pod, nil, false)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	for file, want := range map[string]string{
		strings.Replace(limits, "resource: pods", "apiGroup: x", 1): "limitedResources[0].resource: Required value",
		limits + "more: 1": `unknown field "more"`,
	} {
		if _, err := New(nil, clock.RealClock{}, []byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
