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

// subject is a user or group of a binding, by name. Service accounts are users under their user name.
type subject struct {
	group bool
	name  string
}

// is tells whether the subject is the user or one of its groups.
func (s *subject) is(u user.Info) bool {
	if s.group {
		return slices.Contains(u.GetGroups(), s.name)
	}
	return s.name == u.GetName()
}

// binding is a (Cluster)RoleBinding. It is never changed. namespace is "" for a ClusterRoleBinding.
type binding struct {
	namespace, name string
	role            rbacv1.RoleRef
	subjects        []subject // in the binding's order, each once
	reasons         []string  // of what it allows to each of the subjects
}

// entry is a binding as found by one of its subjects.
type entry struct {
	*binding
	at int // of the subject
	// rivals are the places of the subjects before this one that may be the same user's: users are one, and may be in
	// many groups.
	rivals []int
}

// reason tells why the authenticated user u is allowed something: the first subject that applies is named, as upstream
// does.
func (e *entry) reason(u user.Info) string {
	for _, i := range e.rivals {
		if e.subjects[i].is(u) {
			return e.reasons[i]
		}
	}
	return e.reasons[e.at]
}

type objectKey struct{ namespace, name string }

// index keeps the four kinds of RBAC so that a request looks only at the bindings of its own user and groups.
type index struct {
	mu       sync.RWMutex
	roles    map[objectKey][]rbacv1.PolicyRule // namespace "" holds the ClusterRoles
	bindings map[string]map[subject][]entry    // by namespace, "" holds the ClusterRoleBindings
}

func newIndex() *index {
	return &index{roles: map[objectKey][]rbacv1.PolicyRule{}, bindings: map[string]map[subject][]entry{}}
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
		bySubject = map[subject][]entry{}
		x.bindings[namespace] = bySubject
	}
	for i := range old {
		if key, ok := subjectKey(&old[i], namespace); ok {
			kept := slices.DeleteFunc(slices.Clone(bySubject[key]), func(e entry) bool { return e.name == name })
			if len(kept) == 0 {
				delete(bySubject, key)
			} else {
				bySubject[key] = kept
			}
		}
	}
	b := newBinding(namespace, name, role, new)
	var all, groups []int
	for i, key := range b.subjects {
		e := entry{b, i, groups}
		if key.group {
			e.rivals, groups = all, append(groups, i)
		}
		all = append(all, i)
		list := append(slices.Clone(bySubject[key]), e)
		slices.SortFunc(list, func(x, y entry) int { return cmp.Compare(x.name, y.name) })
		bySubject[key] = list
	}
	if len(bySubject) == 0 {
		delete(x.bindings, namespace)
	}
}

func newBinding(namespace, name string, role rbacv1.RoleRef, subjects []rbacv1.Subject) *binding {
	b := &binding{namespace: namespace, name: name, role: role}
	known := make(map[subject]bool, len(subjects))
	for i := range subjects {
		if key, ok := subjectKey(&subjects[i], namespace); ok && !known[key] {
			known[key] = true
			b.subjects = append(b.subjects, key)
			b.reasons = append(b.reasons, "RBAC: allowed by "+b.describe(&subjects[i]))
		}
	}
	return b
}

// describe names the binding of a subject as audit logs do.
func (b *binding) describe(s *rbacv1.Subject) string {
	kind, name := "ClusterRoleBinding", b.name
	if b.namespace != "" {
		kind, name = "RoleBinding", b.name+"/"+b.namespace
	}
	who := s.Name
	if s.Kind == rbacv1.ServiceAccountKind {
		who += "/" + cmp.Or(s.Namespace, b.namespace)
	}
	return fmt.Sprintf("%s %q of %s %q to %s %q", kind, name, b.role.Kind, b.role.Name, s.Kind, who)
}

func subjectKey(s *rbacv1.Subject, bindingNamespace string) (subject, bool) {
	switch s.Kind {
	case rbacv1.UserKind:
		return subject{name: s.Name}, true
	case rbacv1.GroupKind:
		return subject{group: true, name: s.Name}, true
	case rbacv1.ServiceAccountKind:
		namespace := cmp.Or(s.Namespace, bindingNamespace)
		return subject{name: serviceaccount.MakeUsername(namespace, s.Name)}, namespace != ""
	}
	return subject{}, false
}

// visit calls yield for every binding of u in namespace ("" means only those of the whole cluster), until it returns
// false. A binding that has u as several subjects comes once for each. err tells of a binding whose role does not
// exist; rules is then empty. The lock is not held meanwhile longer than one lookup takes.
func (x *index) visit(u user.Info, namespace string, yield func(e *entry, rules []rbacv1.PolicyRule, err error) bool) {
	if !x.visitIn("", u, yield) || namespace == "" {
		return
	}
	x.visitIn(namespace, u, yield)
}

func (x *index) visitIn(namespace string, u user.Info, yield func(*entry, []rbacv1.PolicyRule, error) bool) bool {
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

func (x *index) visitSubject(namespace string, s subject, yield func(*entry, []rbacv1.PolicyRule, error) bool) bool {
	x.mu.RLock()
	list := x.bindings[namespace][s] // never changed in place
	x.mu.RUnlock()
	for i := range list {
		rules, err := x.rulesOf(&list[i].role, namespace)
		if !yield(&list[i], rules, err) {
			return false
		}
	}
	return true
}

// rulesOf returns the rules of the role that a binding in namespace names.
func (x *index) rulesOf(ref *rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
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
