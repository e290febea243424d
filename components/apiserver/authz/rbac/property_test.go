package rbac

import (
	"cmp"
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

// allows returns the reasons of the bindings by which a request is allowed, of which any will do.
func (w *world) allows(a authorizer.AttributesRecord) (reasons []string) {
	for _, b := range w.clusterBindings {
		if s := applies(b.Subjects, "", a.User); s != nil && w.grants(b.RoleRef, "", a) {
			reasons = append(reasons,
				fmt.Sprintf("RBAC: allowed by ClusterRoleBinding %q of %s %q to %s", b.Name, b.RoleRef.Kind,
					b.RoleRef.Name, who(s, "")))
		}
	}
	for _, b := range w.bindings {
		if b.Namespace != a.Namespace {
			continue
		}
		if s := applies(b.Subjects, b.Namespace, a.User); s != nil && w.grants(b.RoleRef, b.Namespace, a) {
			reasons = append(reasons,
				fmt.Sprintf("RBAC: allowed by RoleBinding %q of %s %q to %s", b.Name+"/"+b.Namespace, b.RoleRef.Kind,
					b.RoleRef.Name, who(s, b.Namespace)))
		}
	}
	return reasons
}

// rules counts what is granted to a user, by each binding once.
func (w *world) rules(u user.Info, namespace string) (rules int) {
	count := func(ref rbacv1.RoleRef, namespace string) {
		if ref.Kind == "ClusterRole" {
			if r := w.clusterRoles[ref.Name]; r != nil {
				rules += len(r.Rules)
			}
		} else if r := w.roles[objectKey{namespace, ref.Name}]; r != nil && namespace != "" {
			rules += len(r.Rules)
		}
	}
	for _, b := range w.clusterBindings {
		if applies(b.Subjects, "", u) != nil {
			count(b.RoleRef, "")
		}
	}
	for _, b := range w.bindings {
		if b.Namespace == namespace && applies(b.Subjects, b.Namespace, u) != nil {
			count(b.RoleRef, b.Namespace)
		}
	}
	return rules
}

// applies returns the first subject that is the user or one of its groups.
func applies(subjects []rbacv1.Subject, namespace string, u user.Info) *rbacv1.Subject {
	i := slices.IndexFunc(subjects, func(s rbacv1.Subject) bool {
		switch s.Kind {
		case "User":
			return u.GetName() == s.Name
		case "Group":
			return slices.Contains(u.GetGroups(), s.Name)
		}
		of := cmp.Or(s.Namespace, namespace)
		return of != "" && u.GetName() == "system:serviceaccount:"+of+":"+s.Name
	})
	if i < 0 {
		return nil
	}
	return &subjects[i]
}

func who(s *rbacv1.Subject, namespace string) string {
	if s.Kind == "ServiceAccount" {
		return fmt.Sprintf("%s %q", s.Kind, s.Name+"/"+cmp.Or(s.Namespace, namespace))
	}
	return fmt.Sprintf("%s %q", s.Kind, s.Name)
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
	rules := []rbacv1.PolicyRule{
		rule(pick("get", "list", "*"), pick("", "apps", "*"), pick("pods", "pods/log", "*/log", "*"))}
	var subjects []rbacv1.Subject
	for range r.IntN(5) {
		subjects = append(subjects,
			rbacv1.Subject{Kind: pick("User", "Group", "ServiceAccount"),
				Name: pick("u", "v", "w", "system:serviceaccount:a:u"), Namespace: pick("", "a", "b")})
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
			w := &world{map[string]*rbacv1.ClusterRole{}, map[objectKey]*rbacv1.Role{},
				map[string]*rbacv1.ClusterRoleBinding{}, map[objectKey]*rbacv1.RoleBinding{}}
			for range 200 {
				w.change(r, x)
				a := ask(pick("u", "v", "system:serviceaccount:a:u", "system:serviceaccount:b:v"),
					[]string{pick("u", "v"), pick("v", "w")}, pick("get", "list", "watch"),
					pick("", "a", "b"), pick("", "apps"), pick("pods", "pods/log", "nodes"), "n")
				decision, reason, _ := x.Authorize(context.Background(), a)
				if got, want := decision == authorizer.DecisionAllow, w.allows(a); got != (len(want) > 0) ||
					got && !slices.Contains(want, reason) {
					t.Fatalf("%+v: index says %v (%s), everything says %q", a, got, reason, want)
				}
				if got, _ := x.Rules(a.User, a.Namespace); len(got) != w.rules(a.User, a.Namespace) {
					t.Fatalf("%+v: %v, want %d rules", a, got, w.rules(a.User, a.Namespace))
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
	a := ask("system:serviceaccount:ns-7:default",
		[]string{"system:serviceaccounts", "system:serviceaccounts:ns-7", "system:authenticated"}, "list", "ns-7", "",
		"pods", "")
	for b.Loop() {
		if decision, _, _ := x.Authorize(context.Background(), a); decision != authorizer.DecisionAllow {
			b.Fatal(decision)
		}
	}
}

// BenchmarkAuthorizeLate is of a user that a binding names after many others and a group.
func BenchmarkAuthorizeLate(b *testing.B) {
	x := fixture()
	subjects := []rbacv1.Subject{groupSubject("others")}
	for i := range 100 {
		subjects = append(subjects, userSubject(fmt.Sprintf("user-%d", i)))
	}
	x.ClusterRoleBindingChanged(nil, clusterBinding("many", "reader", subjects...))
	a := ask("user-99", []string{"some", "system:authenticated"}, "list", "ns-7", "", "pods", "")
	for b.Loop() {
		if decision, _, _ := x.Authorize(context.Background(), a); decision != authorizer.DecisionAllow {
			b.Fatal(decision)
		}
	}
}
