package policystatus

import (
	"encoding/json"
	"testing"

	admission "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// deployments is all that this resolver knows.
type deployments struct{}

func (deployments) ResolveSchema(kind schema.GroupVersionKind) (*spec.Schema, error) {
	if kind.Kind != "Deployment" {
		return nil, resolver.ErrSchemaNotFound
	}
	replicas := spec.Schema{SchemaProps: spec.SchemaProps{
		Type: spec.StringOrArray{"object"}, Properties: map[string]spec.Schema{"replicas": *spec.Int32Property()},
	}}
	return &spec.Schema{SchemaProps: spec.SchemaProps{
		Type: spec.StringOrArray{"object"}, Properties: map[string]spec.Schema{"spec": replicas},
	}}, nil
}

func checker() *validating.TypeChecker {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(apps.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	return &validating.TypeChecker{SchemaResolver: deployments{}, RestMapper: mapper}
}

func policy(expression string) *admission.ValidatingAdmissionPolicy {
	p := &admission.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 2}}
	p.Status.ObservedGeneration = 1
	p.Spec.Validations = []admission.Validation{{Expression: expression}}
	p.Spec.MatchConstraints = &admission.MatchResources{ResourceRules: []admission.NamedRuleWithOperations{{
		RuleWithOperations: admission.RuleWithOperations{Rule: admission.Rule{
			APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"},
		}},
	}}}
	return p
}

func TestStatus(t *testing.T) {
	const head = `{"kind":"ValidatingAdmissionPolicy","apiVersion":"admissionregistration.k8s.io/v1","metadata":{"name":"p"},` +
		`"status":{"observedGeneration":2,"typeChecking":{`
	for expression, want := range map[string]string{
		"object.spec.replicas > 1": head + `}}}`,
		"object.spec.nosuch > 1": head + `"expressionWarnings":[{"fieldRef":"spec.validations[0].expression",` +
			`"warning":"apps/v1, Kind=Deployment: ERROR: \u003cinput\u003e:1:12: undefined field 'nosuch'\n | object.spec.nosuch \u003e 1\n | ...........^\n"}]}}}`,
	} {
		p := policy(expression)
		got, err := json.Marshal(configuration(p, checker().Check(p)))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %v\n%s\nwant\n%s", expression, err, got, want)
		}
	}
}

func TestChecked(t *testing.T) {
	p := policy("true")
	if checked(p) {
		t.Error("a policy that changed is to be looked at")
	}
	p.Status.ObservedGeneration = p.Generation
	if !checked(p) {
		t.Error("the controller's own write is to be the last")
	}
}
