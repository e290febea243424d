package rbac

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// world is a set of RBAC objects and the slow, obvious way to decide by them.
type world struct {
	clusterRoles    map[string]*rbacv1.ClusterRole
	roles           map[objectKey]*rbacv1.Role
	clusterBindings map[string]*rbacv1.ClusterRoleBinding
	bindings        map[objectKey]*rbacv1.RoleBinding
}

func (w *world) allows(a authorizer.AttributesRecord) bool {
	for _, b := range w.clusterBindings {
		if applies(b.Subjects, "", a.User) && w.grants(b.RoleRef, "", a) {
			return true
		}
	}
	for _, b := range w.bindings {
		if b.Namespace == a.Namespace && applies(b.Subjects, b.Namespace, a.User) && w.grants(b.RoleRef, b.Namespace, a) {
			return true
		}
	}
	return false
}

func applies(subjects []rbacv1.Subject, namespace string, u user.Info) bool {
	return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
		switch s.Kind {
		case "User":
			return u.GetName() == s.Name
		case "Group":
			return slices.Contains(u.GetGroups(), s.Name)
		}
		of := s.Namespace
		if of == "" {
			of = namespace
		}
		return of != "" && u.GetName() == "system:serviceaccount:"+of+":"+s.Name
	})
}

func (w *world) grants(ref rbacv1.RoleRef, namespace string, a authorizer.AttributesRecord) bool {
	var rules []rbacv1.PolicyRule
	if ref.Kind == "ClusterRole" {
		if r := w.clusterRoles[ref.Name]; r != nil {
			rules = r.Rules
		}
	} else if r := w.roles[objectKey{namespace, ref.Name}]; r != nil && namespace != "" {
		rules = r.Rules
	}
	return Allow(rules, a)
}

// change makes, replaces or removes one object at random, in the world and in the authorizer.
func (w *world) change(r *rand.Rand, x *Authorizer) {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	namespace, name, gone := pick("a", "b"), pick("x", "y", "z"), r.IntN(3) == 0
	rules := []rbacv1.PolicyRule{rule(pick("get", "list", "*"), pick("", "apps", "*"), pick("pods", "pods/log", "*/log", "*"))}
	var subjects []rbacv1.Subject
	for range r.IntN(3) {
		subjects = append(subjects, rbacv1.Subject{Kind: pick("User", "Group", "ServiceAccount"), Name: pick("u", "v"), Namespace: pick("", "a", "b")})
	}
	ref := rbacv1.RoleRef{Kind: pick("Role", "ClusterRole"), Name: pick("x", "y", "z")}
	key := objectKey{namespace, name}
	switch r.IntN(4) {
	case 0:
		if old := w.clusterRoles[name]; gone && old != nil {
			delete(w.clusterRoles, name)
			x.ClusterRoleChanged(old, nil)
		} else if !gone {
			w.clusterRoles[name] = clusterRole(name, rules...)
			x.ClusterRoleChanged(old, w.clusterRoles[name])
		}
	case 1:
		if old := w.roles[key]; gone && old != nil {
			delete(w.roles, key)
			x.RoleChanged(old, nil)
		} else if !gone {
			w.roles[key] = role(namespace, name, rules...)
			x.RoleChanged(old, w.roles[key])
		}
	case 2:
		if old := w.clusterBindings[name]; gone && old != nil {
			delete(w.clusterBindings, name)
			x.ClusterRoleBindingChanged(old, nil)
		} else if !gone {
			now := clusterBinding(name, ref.Name, subjects...)
			if old != nil {
				now.RoleRef = old.RoleRef // it can't change
			}
			w.clusterBindings[name] = now
			x.ClusterRoleBindingChanged(old, now)
		}
	case 3:
		if old := w.bindings[key]; gone && old != nil {
			delete(w.bindings, key)
			x.RoleBindingChanged(old, nil)
		} else if !gone {
			now := roleBinding(namespace, name, ref.Kind, ref.Name, subjects...)
			if old != nil {
				now.RoleRef = old.RoleRef
			}
			w.bindings[key] = now
			x.RoleBindingChanged(old, now)
		}
	}
}

// TestIndexDecidesAsTheObviousWay: whatever changes in whatever order, the index and a search of everything agree.
func TestIndexDecidesAsTheObviousWay(t *testing.T) {
	for seed := range uint64(50) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			pick := func(list ...string) string { return list[r.IntN(len(list))] }
			x := New()
			w := &world{map[string]*rbacv1.ClusterRole{}, map[objectKey]*rbacv1.Role{}, map[string]*rbacv1.ClusterRoleBinding{}, map[objectKey]*rbacv1.RoleBinding{}}
			for range 200 {
				w.change(r, x)
				a := ask(pick("u", "v", "system:serviceaccount:a:u", "system:serviceaccount:b:v"), []string{pick("u", "v", "w")}, pick("get", "list", "watch"),
					pick("", "a", "b"), pick("", "apps"), pick("pods", "pods/log", "nodes"), "n")
				decision, reason, _ := x.Authorize(context.Background(), a)
				if got, want := decision == authorizer.DecisionAllow, w.allows(a); got != want {
					t.Fatalf("%+v: index says %v (%s), everything says %v", a, got, reason, want)
				}
			}
		})
	}
}

func BenchmarkAuthorize(b *testing.B) {
	x := fixture()
	for i := range 10000 {
		namespace := fmt.Sprintf("ns-%d", i)
		x.RoleBindingChanged(nil, roleBinding(namespace, "b", "ClusterRole", "reader", account(namespace, "default")))
	}
	a := ask("system:serviceaccount:ns-7:default", []string{"system:serviceaccounts", "system:serviceaccounts:ns-7", "system:authenticated"}, "list", "ns-7", "", "pods", "")
	for b.Loop() {
		if decision, _, _ := x.Authorize(context.Background(), a); decision != authorizer.DecisionAllow {
			b.Fatal(decision)
		}
	}
}
