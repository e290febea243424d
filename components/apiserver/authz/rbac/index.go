package rbac

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// subject is who a binding is for: a user name or a group name. Service accounts are users under their user name.
type subject struct {
	group bool
	name  string
}

// binding is one subject of one (Cluster)RoleBinding. namespace is "" for a ClusterRoleBinding.
type binding struct {
	namespace, name string
	role            rbacv1.RoleRef
	subject         rbacv1.Subject
	reason          string // of what it allows
}

type objectKey struct{ namespace, name string }

// index keeps the four kinds of RBAC so that a request looks only at the bindings of its own user and groups.
type index struct {
	mu       sync.RWMutex
	roles    map[objectKey][]rbacv1.PolicyRule // namespace "" holds the ClusterRoles
	bindings map[string]map[subject][]binding  // by namespace, "" holds the ClusterRoleBindings
}

func newIndex() *index {
	return &index{roles: map[objectKey][]rbacv1.PolicyRule{}, bindings: map[string]map[subject][]binding{}}
}

func (x *index) setRole(namespace, name string, rules []rbacv1.PolicyRule) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.roles[objectKey{namespace, name}] = rules
}

func (x *index) deleteRole(namespace, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.roles, objectKey{namespace, name})
}

// replaceBinding takes the subjects of old away and adds those of new.
func (x *index) replaceBinding(namespace, name string, role rbacv1.RoleRef, old, new []rbacv1.Subject) {
	x.mu.Lock()
	defer x.mu.Unlock()
	bySubject := x.bindings[namespace]
	if bySubject == nil {
		bySubject = map[subject][]binding{}
		x.bindings[namespace] = bySubject
	}
	for i := range old {
		if key, ok := subjectKey(&old[i], namespace); ok {
			kept := slices.DeleteFunc(slices.Clone(bySubject[key]), func(b binding) bool { return b.name == name })
			if len(kept) == 0 {
				delete(bySubject, key)
			} else {
				bySubject[key] = kept
			}
		}
	}
	for i := range new {
		if key, ok := subjectKey(&new[i], namespace); ok {
			b := binding{namespace: namespace, name: name, role: role, subject: new[i]}
			b.reason = "RBAC: allowed by " + b.String()
			list := append(slices.Clone(bySubject[key]), b)
			slices.SortFunc(list, func(a, b binding) int { return cmp.Compare(a.name, b.name) })
			bySubject[key] = list
		}
	}
	if len(bySubject) == 0 {
		delete(x.bindings, namespace)
	}
}

func subjectKey(s *rbacv1.Subject, bindingNamespace string) (subject, bool) {
	switch s.Kind {
	case rbacv1.UserKind:
		return subject{name: s.Name}, true
	case rbacv1.GroupKind:
		return subject{group: true, name: s.Name}, true
	case rbacv1.ServiceAccountKind:
		namespace := s.Namespace
		if namespace == "" {
			namespace = bindingNamespace
		}
		return subject{name: serviceaccount.MakeUsername(namespace, s.Name)}, namespace != ""
	}
	return subject{}, false
}

// visit calls yield for every rule set bound to u in namespace ("" means only those of the whole cluster), until it
// returns false. err tells of a binding whose role does not exist; rules is then empty. The lock is not held meanwhile
// longer than one lookup takes.
func (x *index) visit(u user.Info, namespace string, yield func(b *binding, rules []rbacv1.PolicyRule, err error) bool) {
	if !x.visitIn("", u, yield) || namespace == "" {
		return
	}
	x.visitIn(namespace, u, yield)
}

func (x *index) visitIn(namespace string, u user.Info, yield func(*binding, []rbacv1.PolicyRule, error) bool) bool {
	if !x.visitSubject(namespace, subject{name: u.GetName()}, yield) {
		return false
	}
	for _, g := range u.GetGroups() {
		if !x.visitSubject(namespace, subject{group: true, name: g}, yield) {
			return false
		}
	}
	return true
}

func (x *index) visitSubject(namespace string, s subject, yield func(*binding, []rbacv1.PolicyRule, error) bool) bool {
	x.mu.RLock()
	list := x.bindings[namespace][s] // never changed in place
	x.mu.RUnlock()
	for i := range list {
		rules, err := x.rulesOf(list[i].role, namespace)
		if !yield(&list[i], rules, err) {
			return false
		}
	}
	return true
}

// rulesOf returns the rules of the role that a binding in namespace names.
func (x *index) rulesOf(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	key, resource := objectKey{namespace, ref.Name}, "role" // in errors as in upstream's
	switch ref.Kind {
	case "ClusterRole":
		key.namespace, resource = "", "clusterrole"
	case "Role":
	default:
		return nil, fmt.Errorf("unsupported role reference kind: %q", ref.Kind)
	}
	x.mu.RLock()
	rules, ok := x.roles[key]
	x.mu.RUnlock()
	if !ok || (resource == "role" && namespace == "") {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: rbacv1.GroupName, Resource: resource}, ref.Name)
	}
	return rules, nil
}
