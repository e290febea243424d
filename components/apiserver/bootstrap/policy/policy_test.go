package policy

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/internal/golden"
)

// TestGolden shows every change of the default policy in review.
func TestGolden(t *testing.T) {
	for name, list := range map[string][]any{
		"clusterroles":        anys(ClusterRoles(Features{})),
		"clusterrolebindings": anys(ClusterRoleBindings(Features{})),
		"roles":               anys(Roles()),
		"rolebindings":        anys(RoleBindings()),
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			for _, obj := range list {
				out, err := yaml.Marshal(obj)
				if err != nil {
					t.Fatal(err)
				}
				got.WriteString("---\n")
				got.Write(out)
			}
			file := filepath.Join("testdata", name+".yaml")
			golden.Compare(t, file, got.String())
		})
	}
}

func anys[T any](list []T) []any {
	var out []any
	for _, v := range list {
		out = append(out, v)
	}
	return out
}

// everything is every feature.
var everything = Features{StorageMigration: true, TrustBundles: true, PodCertificates: true, DeviceTaintRules: true}

func TestPolicyIsSound(t *testing.T) {
	roles := map[string]bool{}
	for _, r := range ClusterRoles(everything) {
		if roles[r.Name] {
			t.Errorf("cluster role %s is listed twice", r.Name)
		}
		roles[r.Name] = true
		checkRules(t, r.Name, r.Rules)
		if r.AggregationRule == nil && len(r.Rules) == 0 {
			t.Errorf("cluster role %s grants nothing", r.Name)
		}
	}
	for _, b := range ClusterRoleBindings(everything) {
		if !roles[b.RoleRef.Name] {
			t.Errorf("cluster role binding %s names the unknown role %s", b.Name, b.RoleRef.Name)
		}
	}
	namespaced := map[string]bool{}
	for _, r := range Roles() {
		namespaced[r.Namespace+"/"+r.Name] = true
		checkRules(t, r.Name, r.Rules)
	}
	for _, b := range RoleBindings() {
		if !namespaced[b.Namespace+"/"+b.RoleRef.Name] {
			t.Errorf("role binding %s/%s names the unknown role %s", b.Namespace, b.Name, b.RoleRef.Name)
		}
	}
}

// TestDeviceTaintRules: who acts by rules may read them, and the controller tells how far it is, if the gate is on.
func TestDeviceTaintRules(t *testing.T) {
	for _, on := range []bool{false, true} {
		for name, want := range map[string]map[string]bool{
			"system:kube-scheduler":                              {"devicetaintrules": on},
			"system:controller:device-taint-eviction-controller": {"devicetaintrules": on, "devicetaintrules/status": on},
		} {
			got := map[string]bool{}
			for _, r := range ClusterRoles(Features{DeviceTaintRules: on}) {
				for _, rule := range r.Rules {
					for resource := range want {
						got[resource] = got[resource] || r.Name == name && slices.Contains(rule.Resources, resource)
					}
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("%s, the gate is %v: %v, want %v", name, on, got, want)
			}
		}
	}
}

func checkRules(t *testing.T, name string, rules []rbacv1.PolicyRule) {
	t.Helper()
	for _, r := range rules {
		if len(r.Verbs) == 0 || (len(r.NonResourceURLs) == 0) == (len(r.Resources) == 0) {
			t.Errorf("%s: malformed rule %v", name, r)
		}
		if len(r.Resources) > 0 && len(r.APIGroups) == 0 {
			t.Errorf("%s: rule without API group %v", name, r)
		}
		for _, g := range r.APIGroups {
			if strings.Contains(g, "core") {
				t.Errorf("%s: API group %q", name, g)
			}
		}
	}
}

// TestPagesOfComponents: those may be read that are there.
func TestPagesOfComponents(t *testing.T) {
	for f, want := range map[Features][2]bool{
		{}: {true, true}, {NoFlagz: true}: {false, true}, {NoStatusz: true}: {true, false},
	} {
		for _, r := range ClusterRoles(f) {
			if r.Name != "system:monitoring" {
				continue
			}
			if urls := r.Rules[0].NonResourceURLs; want != [2]bool{slices.Contains(urls, "/flagz"),
				slices.Contains(urls, "/statusz")} {
				t.Errorf("%+v: %v", f, urls)
			}
		}
	}
}
