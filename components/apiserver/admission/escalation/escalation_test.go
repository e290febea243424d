package escalation

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// asked keeps what it was last asked with.
type asked struct {
	role    *authorizer.AttributesRecord
	binding string
}

func (a *asked) CheckRole(_ context.Context, _ user.Info, request authorizer.AttributesRecord, _ string,
	_ []rbacv1.PolicyRule, _ bool) error {
	a.role = &request
	return nil
}

func (a *asked) CheckBinding(_ context.Context, _ user.Info, namespace, _ string, ref rbacv1.RoleRef) error {
	a.binding = namespace + "/" + ref.Name
	return nil
}

// The leave to escalate is asked for by the name in the path, which isn't the object's when that is new.
func TestRequestsName(t *testing.T) {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	for _, tt := range []struct {
		what string
		op   admission.Operation
		old  runtime.Object
		info *request.RequestInfo
		want string
	}{
		{"POST", admission.Create, nil, &request.RequestInfo{Verb: "create"}, ""},
		{"PUT that creates", admission.Create, nil, &request.RequestInfo{Verb: "update", Name: "r"}, "r"},
		{"PATCH", admission.Update, &rbacv1.ClusterRole{}, &request.RequestInfo{Verb: "patch", Name: "r"}, "r"},
		{"no request", admission.Create, nil, nil, ""},
	} {
		ctx := t.Context()
		if tt.info != nil {
			ctx = request.WithRequestInfo(ctx, tt.info)
		}
		a := admission.NewAttributesRecord(role, tt.old, rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), "", "r",
			rbacv1.SchemeGroupVersion.WithResource("clusterroles"), "", tt.op, nil, false, &user.DefaultInfo{Name: "u"})
		var got asked
		if err := Check(ctx, &got, a); err != nil || got.role == nil || got.role.Name != tt.want ||
			got.role.APIVersion != "*" {
			t.Errorf("%s: asked %+v, %v", tt.what, got.role, err)
		}
	}
}

// Only writes of the objects themselves are looked at.
func TestOtherRequests(t *testing.T) {
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "b"},
		RoleRef: rbacv1.RoleRef{Name: "r"}}
	for _, tt := range []struct {
		op   admission.Operation
		sub  string
		want string
	}{
		{admission.Create, "", "n/r"}, {admission.Update, "", "n/r"}, {admission.Create, "status", ""},
		{admission.Delete, "", ""}, {admission.Connect, "", ""},
	} {
		a := admission.NewAttributesRecord(binding, nil, rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), "n", "b",
			rbacv1.SchemeGroupVersion.WithResource("rolebindings"), tt.sub, tt.op, nil, false,
			&user.DefaultInfo{Name: "u"})
		var got asked
		if err := Check(t.Context(), &got, a); err != nil || got.binding != tt.want {
			t.Errorf("%s %s: asked %q, %v", tt.op, tt.sub, got.binding, err)
		}
	}
}
