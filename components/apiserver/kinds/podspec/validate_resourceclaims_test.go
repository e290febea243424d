package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestResourceClaims: the claims of a pod.
func TestResourceClaims(t *testing.T) {
	type claim = corev1.PodResourceClaim
	with := func(list ...claim) func(*corev1.PodSpec) { return func(s *corev1.PodSpec) { s.ResourceClaims = list } }
	n := new("n")
	checkSpecs(t, "spec.resourceClaims[0]", []specCase{
		{"claim", with(claim{Name: "a", ResourceClaimName: n}), nil},
		{"template", with(claim{Name: "a", ResourceClaimTemplateName: n}), nil},
		{"no name", with(claim{ResourceClaimName: n}), texts{".name: Required value"}},
		{"bad name", with(claim{Name: "A", ResourceClaimName: n}),
			texts{`.name: Invalid value: "A": a lowercase RFC 1123 label must…`}},
		{"one name", with(claim{Name: "a", ResourceClaimName: n}, claim{Name: "a", ResourceClaimName: n}),
			texts{`spec.resourceClaims[1].name: Duplicate value: "a"`}},
		{"nothing", with(claim{Name: "a"}), texts{
			`: Invalid value: {"Name":"a","ResourceClaimName":null,"ResourceClaimTemplateName":null}: ` +
				"must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"}},
		{"both", with(claim{Name: "a", ResourceClaimName: n, ResourceClaimTemplateName: n}), texts{
			`: Invalid value: {"Name":"a","ResourceClaimName":"n","ResourceClaimTemplateName":"n"}: ` +
				"at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"}},
		{"bad claim", with(claim{Name: "a", ResourceClaimName: new("")}),
			texts{`.resourceClaimName: Invalid value: "": a lowercase RFC 1123 subdomain must…`}},
		{"bad template", with(claim{Name: "a", ResourceClaimTemplateName: new("A")}),
			texts{`.resourceClaimTemplateName: Invalid value: "A": a lowercase RFC 1123 subdomain must…`}},
	})
}

// TestClaimsOfContainers: each claim of the pod once, or each of its requests.
func TestClaimsOfContainers(t *testing.T) {
	type use = corev1.ResourceClaim
	with := func(claims int, list ...use) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			for _, name := range (texts{"a", "b"})[:claims] {
				s.ResourceClaims = append(s.ResourceClaims, corev1.PodResourceClaim{Name: name,
					ResourceClaimName: new("n")})
			}
			s.Containers[0].Resources.Claims = list
		}
	}
	checkSpecs(t, "spec.containers[0].resources.claims", []specCase{
		{"both", with(2, use{Name: "a"}, use{Name: "b"}), nil},
		{"no name", with(1, use{}), texts{"[0]: Required value"}},
		{"unknown", with(2, use{Name: "c"}),
			texts{`[0]: Not found: "c": must be one of the names in pod.spec.resourceClaims: a, b`}},
		{"unknown of none", with(0, use{Name: "c"}),
			texts{`[0]: Not found: "c": must be one of the names in pod.spec.resourceClaims which is empty`}},
		{"one twice", with(1, use{Name: "a"}, use{Name: "a"}), texts{`[1]: Duplicate value: "a"`}},
		{"two requests", with(1, use{Name: "a", Request: "x"}, use{Name: "a", Request: "y"}), nil},
		{"one request twice", with(1, use{Name: "a", Request: "x"}, use{Name: "a", Request: "x"}),
			texts{`[1]: Duplicate value: "a/x"`}},
		{"the whole after a request", with(1, use{Name: "a", Request: "x"}, use{Name: "a"}),
			texts{`[1]: Duplicate value: "a"`}},
		{"a request after the whole", with(1, use{Name: "a"}, use{Name: "a", Request: "x"}),
			texts{`[1]: Duplicate value: "a"`}},
		{"bad request", with(1, use{Name: "a", Request: "X"}),
			texts{`[0].request: Invalid value: "X": a lowercase RFC 1123 label must…`}},
	})
}
