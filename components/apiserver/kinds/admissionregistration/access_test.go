package admissionregistration

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// asked refuses everything and notes what was asked for.
type asked []authorizer.AttributesRecord

func (a *asked) access() Access {
	return Access{
		Authorize: func(_ context.Context, r authorizer.AttributesRecord) error {
			*a = append(*a, r)
			return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
		},
		Resolve: func(k schema.GroupVersionKind) (schema.GroupVersionResource, error) {
			if k.Kind != "ConfigMap" {
				return schema.GroupVersionResource{}, errors.New("no such kind")
			}
			return k.GroupVersion().WithResource("configmaps"), nil
		},
		ParamKind: func(_ context.Context, policy string) (*v1.ParamKind, error) {
			switch policy {
			case "maps":
				return &v1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}, nil
			case "others":
				return &v1.ParamKind{APIVersion: "g/v1", Kind: "Other"}, nil
			}
			return nil, errors.New("no such policy")
		},
	}
}

func as(groups ...string) context.Context {
	return request.WithUser(context.Background(), &user.DefaultInfo{Name: "jane", UID: "2", Groups: groups})
}

func TestParametersOfPolicies(t *testing.T) {
	maps, others := &v1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}, &v1.ParamKind{APIVersion: "g/v1", Kind: "Other"}
	for _, c := range []struct {
		name      string
		ctx       context.Context
		kind, old *v1.ParamKind
		resource  string // "" if nothing is to be asked
		want      string
	}{
		{"none", as(), nil, maps, "", ""},
		{"the same", as(), maps, maps.DeepCopy(), "", ""},
		{"an administrator's", as(user.SystemPrivilegedGroup), maps, nil, "", ""},
		{"others than before", as(), maps, others, "configmaps",
			`spec.paramKind: Forbidden: user &{jane 2 [] map[]} must have "get" permission ` +
				"on all objects of the referenced paramKind (kind=ConfigMap, apiVersion=v1)"},
		{"unknown ones", as(), others, nil, "*",
			`spec.paramKind: Forbidden: user &{jane 2 [] map[]} must have "get" permission ` +
				"on all objects of the referenced paramKind (kind=Other, apiVersion=g/v1)"},
	} {
		var a asked
		errs := a.access().Policy(c.ctx, c.kind, c.old)
		if c.resource == "" {
			if len(a) > 0 || len(errs) > 0 {
				t.Errorf("%s: asked %v, got %v", c.name, a, errs)
			}
			continue
		}
		if len(a) != 1 || a[0].Resource != c.resource || a[0].Verb != "get" || a[0].Namespace != "*" ||
			a[0].Name != "*" {
			t.Errorf("%s: asked %+v", c.name, a)
		}
		if len(errs) != 1 || errs[0].Error() != c.want {
			t.Errorf("%s: got %v, want %s", c.name, errs, c.want)
		}
	}
}

func TestParametersOfBindings(t *testing.T) {
	const everything = ` to determine minimum required permissions and user &{jane 2 [] map[]} does not have "get" permission for all groups, versions and resources`
	one, many := &v1.ParamRef{Name: "n", Namespace: "ns"}, &v1.ParamRef{Selector: &metav1.LabelSelector{}}
	for _, c := range []struct {
		policy   string
		ref      *v1.ParamRef
		refusal  string
		resource string
		verb     string
		want     string
	}{
		{"maps", one, ValidatingRefusal, "configmaps", "get",
			`user &{jane 2 [] map[]} does not have "get" permission on the object referenced by paramRef`},
		{"maps", many, ValidatingRefusal, "configmaps", "list",
			`user &{jane 2 [] map[]} does not have "list" permission on the object referenced by paramRef`},
		{"maps", one, MutatingRefusal, "configmaps", "get",
			`user get does not have "&{jane 2 [] map[]}" permission on the object referenced by paramRef`},
		{"others", one, ValidatingRefusal, "*", "get", "unable to resolve paramKind &{g/v1 Other}" + everything},
		{"nosuch", one, ValidatingRefusal, "*", "get", "unable to get policy nosuch" + everything},
	} {
		var a asked
		errs := a.access().Binding(as(), c.policy, c.ref, c.refusal)
		if len(a) != 1 || a[0].Resource != c.resource || a[0].Verb != c.verb || a[0].Name != c.ref.Name ||
			a[0].Namespace != c.ref.Namespace {
			t.Errorf("%s: asked %+v", c.policy, a)
		}
		if want := "spec.paramRef: Forbidden: " + c.want; len(errs) != 1 || errs[0].Error() != want {
			t.Errorf("%s: got %v, want %s", c.policy, errs, want)
		}
	}
	var a asked
	if errs := a.access().Binding(as(), "maps", nil, ValidatingRefusal); len(a) > 0 || len(errs) > 0 {
		t.Errorf("a binding without parameters: asked %v, got %v", a, errs)
	}
}
