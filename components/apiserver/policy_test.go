package apiserver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	policiesv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

func matching(resource string) *policiesv1.MatchResources {
	return &policiesv1.MatchResources{
		ResourceRules: []policiesv1.NamedRuleWithOperations{{RuleWithOperations: policiesv1.RuleWithOperations{
			Operations: []policiesv1.OperationType{policiesv1.OperationAll},
			Rule: policiesv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"},
				Resources: []string{resource}},
		}}}}
}

// policy is one of the policies of a test; it counts for objects that are labelled with its name.
type policy struct {
	name    string
	rules   []policiesv1.Validation
	change  func(*policiesv1.ValidatingAdmissionPolicySpec)
	params  *policiesv1.ParamRef
	actions []policiesv1.ValidationAction // Deny if there are none
}

// enforce creates policies with their bindings. They count at once: what comes first after that waits for them.
func enforce(t *testing.T, c kubernetes.Interface, resource string, list ...policy) {
	t.Helper()
	api := c.AdmissionregistrationV1()
	for _, p := range list {
		spec := policiesv1.ValidatingAdmissionPolicySpec{MatchConstraints: matching(resource), Validations: p.rules}
		if p.change != nil {
			p.change(&spec)
		}
		made := &policiesv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.name}, Spec: spec}
		if _, err := api.ValidatingAdmissionPolicies().Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if p.actions == nil {
			p.actions = []policiesv1.ValidationAction{policiesv1.Deny}
		}
		binding := &policiesv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: p.name},
			Spec: policiesv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: p.name, ParamRef: p.params, ValidationActions: p.actions,
				MatchResources: &policiesv1.MatchResources{ObjectSelector: labelled(p.name)},
			}}
		if _, err := api.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPoliciesDecide shows what expressions see, and what clients get of what they find.
func TestPoliciesDecide(t *testing.T) {
	f := startCustom(t)
	c := f.client(t)
	f.create(t, "limits", "spec: {color: red, replicas: 3}")
	f.create(t, "others", "spec: {color: blue}")
	limits := configMapFor("limits")
	if _, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), limits, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	rule := func(expression, message string) []policiesv1.Validation {
		return []policiesv1.Validation{{Expression: expression, MessageExpression: message}}
	}
	with := func(apiVersion, kind string) func(*policiesv1.ValidatingAdmissionPolicySpec) {
		return func(s *policiesv1.ValidatingAdmissionPolicySpec) {
			s.ParamKind = &policiesv1.ParamKind{APIVersion: apiVersion, Kind: kind}
		}
	}
	named := func(name string, missing policiesv1.ParameterNotFoundActionType) *policiesv1.ParamRef {
		return &policiesv1.ParamRef{Name: name, Namespace: "default", ParameterNotFoundAction: &missing}
	}
	cases := []struct {
		policy
		want string // of the error, "" for none
	}{
		{policy{name: "allow", rules: rule("object.data.a == 'b'", "")}, ""},
		{policy{name: "deny", rules: rule("object.data.a == 'c'", "'it is ' + object.data.a")},
			`configmaps "deny" is forbidden: ValidatingAdmissionPolicy 'deny' with binding 'deny' denied request: it is b`},
		{policy{name: "fail", rules: rule("object.data.none == 'c'", "")},
			`expression 'object.data.none == 'c'' resulted in error: no such key: none`},
		{policy{name: "warn", rules: rule("false", ""),
			actions: []policiesv1.ValidationAction{policiesv1.Warn, policiesv1.Audit}}, ""},
		{policy{name: "variable", rules: rule("variables.upper == 'b'", ""),
			change: func(s *policiesv1.ValidatingAdmissionPolicySpec) {
				s.Variables = []policiesv1.Variable{{Name: "upper", Expression: "object.data.a.upperAscii()"}}
			}}, "failed expression: variables.upper == 'b'"},
		{policy{name: "condition", rules: rule("false", ""), change: func(s *policiesv1.ValidatingAdmissionPolicySpec) {
			s.MatchConditions = []policiesv1.MatchCondition{
				{Name: "never", Expression: "request.userInfo.username == 'nobody'"}}
		}}, ""},
		{policy{name: "authorizer",
			rules: rule("!authorizer.group('').resource('pods').namespace('default').check('get').allowed()", "")},
			"failed expression: !authorizer"},
		{policy{name: "namespace", rules: rule("namespaceObject.metadata.name != 'default'", "")},
			"failed expression: namespaceObject"},
		{policy{name: "param", rules: rule("params.data.a == 'c'", "'want ' + params.data.a"),
			change: with("v1", "ConfigMap"), params: named("limits", policiesv1.DenyAction)}, "want b"},
		{policy{name: "param-missing", rules: rule("params.data.a == 'c'", ""), change: with("v1", "ConfigMap"),
			params: named("none", policiesv1.DenyAction)},
			"no params found for policy binding with `Deny` parameterNotFoundAction"},
		{policy{name: "param-optional", rules: rule("params.data.a == 'c'", ""), change: with("v1", "ConfigMap"),
			params: named("none", policiesv1.AllowAction)}, ""},
		{policy{name: "custom-param",
			rules:  rule("params.spec.replicas > 3", "'at most ' + string(params.spec.replicas)"),
			change: with("example.com/v1", "Widget"),
			params: named("limits", policiesv1.DenyAction)}, "at most 3"},
		{policy{name: "custom-param-beta", rules: rule("params.spec.replicas > 3", ""),
			change: with("example.com/v1beta1", "Widget"),
			params: &policiesv1.ParamRef{Selector: &metav1.LabelSelector{}, Namespace: "default",
				ParameterNotFoundAction: ptr.To(policiesv1.DenyAction)}},
			"failed expression: params.spec.replicas"},
	}
	var list []policy
	for _, tt := range cases {
		list = append(list, tt.policy)
	}
	enforce(t, c, "configmaps", list...)
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			told := &warnings{}
			config := f.as("admin")
			config.WarningHandler = told
			_, err := f.clientOf(t, config).CoreV1().ConfigMaps("default").Create(t.Context(), configMapFor(tt.name),
				metav1.CreateOptions{})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			want := []string{"Validation failed for ValidatingAdmissionPolicy 'warn' with binding 'warn': failed expression: " +
				"false"}
			if tt.name == "warn" && !slices.Equal(told.texts, want) {
				t.Errorf("warnings %q", told.texts)
			}
		})
	}
}

// TestPoliciesChange: policies change objects of Go types and custom resources, by apply configurations and JSON
// patches.
func TestPoliciesChange(t *testing.T) {
	f := startCustom(t)
	c := f.client(t)
	api := c.AdmissionregistrationV1()
	for resource, mutation := range map[string]policiesv1.Mutation{
		"deployments": {PatchType: policiesv1.PatchTypeApplyConfiguration,
			ApplyConfiguration: &policiesv1.ApplyConfiguration{
				Expression: `Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
				containers: [Object.spec.template.spec.containers{name: "side", image: "s"}]}}}}`}},
		"configmaps": {PatchType: policiesv1.PatchTypeJSONPatch, JSONPatch: &policiesv1.JSONPatch{
			Expression: `[JSONPatch{op: "add", path: "/data/user", value: request.userInfo.username}]`}},
		"widgets": {PatchType: policiesv1.PatchTypeApplyConfiguration,
			ApplyConfiguration: &policiesv1.ApplyConfiguration{
				Expression: `Object{spec: Object.spec{color: "blue"}}`}},
	} {
		made := &policiesv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: resource},
			Spec: policiesv1.MutatingAdmissionPolicySpec{
				MatchConstraints: matching(resource), ReinvocationPolicy: policiesv1.NeverReinvocationPolicy,
				Mutations: []policiesv1.Mutation{mutation, mutation}, // the second is given what the first made
			}}
		if _, err := api.MutatingAdmissionPolicies().Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		binding := &policiesv1.MutatingAdmissionPolicyBinding{ObjectMeta: made.ObjectMeta,
			Spec: policiesv1.MutatingAdmissionPolicyBindingSpec{PolicyName: resource}}
		if _, err := api.MutatingAdmissionPolicyBindings().Create(t.Context(), binding,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	d, err := c.AppsV1().Deployments("default").Create(t.Context(), deploymentFor("d"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	containers := d.Spec.Template.Spec.Containers
	if i := slices.IndexFunc(containers,
		func(c corev1.Container) bool { return c.Name == "side" }); len(containers) != 2 || i < 0 ||
		containers[i].ImagePullPolicy == "" {
		t.Errorf("containers %+v", containers)
	}
	m, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), configMapFor("m"), metav1.CreateOptions{})
	if err != nil || m.Data["user"] != "admin" {
		t.Errorf("data %v, %v", m.Data, err)
	}
	if w := f.create(t, "w", "spec: {color: red}"); w.Object["spec"].(map[string]any)["color"] != "blue" {
		t.Errorf("widget %v", w.Object["spec"])
	}
}

// TestPolicyOfAnotherVersion: a policy that changes objects is not able to where it counts for a request because that
// is for another version of what its rules name. So it is with upstream, whatever the version is.
func TestPolicyOfAnotherVersion(t *testing.T) {
	f := start(t)
	c := f.client(t)
	match := matching("horizontalpodautoscalers")
	match.ResourceRules[0].APIGroups, match.ResourceRules[0].APIVersions = []string{"autoscaling"}, []string{"v2"}
	made := &policiesv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: policiesv1.MutatingAdmissionPolicySpec{
			MatchConstraints: match, ReinvocationPolicy: policiesv1.NeverReinvocationPolicy,
			Mutations: []policiesv1.Mutation{
				{PatchType: policiesv1.PatchTypeApplyConfiguration, ApplyConfiguration: &policiesv1.ApplyConfiguration{
					Expression: `Object{metadata: Object.metadata{labels: {"a": "b"}}}`}}},
		}}
	api := c.AdmissionregistrationV1()
	if _, err := api.MutatingAdmissionPolicies().Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &policiesv1.MutatingAdmissionPolicyBinding{ObjectMeta: made.ObjectMeta,
		Spec: policiesv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "p"}}
	if _, err := api.MutatingAdmissionPolicyBindings().Create(t.Context(), binding,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const scaler = `{"apiVersion":"autoscaling/%s","kind":"HorizontalPodAutoscaler","metadata":{"name":"%[1]s"},"spec":{"maxReplicas":1,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"A","name":"b"}}}`
	const path = "/apis/autoscaling/%s/namespaces/default/horizontalpodautoscalers"
	if code, answer, _ := f.raw(t, "POST", fmt.Sprintf(path, "v2"), "application/json",
		fmt.Sprintf(scaler, "v2")); code != 201 || !strings.Contains(answer, `"labels":{"a":"b"}`) {
		t.Errorf("%d %s", code, answer)
	}
	code, message, _ := f.raw(t, "POST", fmt.Sprintf(path, "v1"), "application/json", fmt.Sprintf(scaler, "v1"))
	const want = "policy 'p' with binding 'p' denied request: converting (v2.HorizontalPodAutoscaler) to " +
		"(v1.HorizontalPodAutoscaler): unknown conversion"
	if code != 403 || !strings.Contains(message, want) {
		t.Errorf("%d %s, want %s", code, message, want)
	}
}

// TestPoliciesSeeWebhooks: a policy for everything counts for what configures webhooks, but neither for policies nor
// for reviews.
func TestPoliciesSeeWebhooks(t *testing.T) {
	f := start(t)
	c := f.client(t)
	api := c.AdmissionregistrationV1()
	made := &policiesv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "nothing"},
		Spec: policiesv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: matching("*"), Validations: []policiesv1.Validation{{Expression: "false"}},
		}}
	if _, err := api.ValidatingAdmissionPolicies().Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &policiesv1.ValidatingAdmissionPolicyBinding{ObjectMeta: made.ObjectMeta,
		Spec: policiesv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "nothing", ValidationActions: []policiesv1.ValidationAction{policiesv1.Deny}}}
	if _, err := api.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	name := metav1.ObjectMeta{Name: "w"}
	for _, create := range []func() error{
		func() error {
			_, err := api.ValidatingWebhookConfigurations().Create(t.Context(),
				&policiesv1.ValidatingWebhookConfiguration{ObjectMeta: name}, metav1.CreateOptions{})
			return err
		},
		func() error {
			_, err := api.MutatingWebhookConfigurations().Create(t.Context(),
				&policiesv1.MutatingWebhookConfiguration{ObjectMeta: name}, metav1.CreateOptions{})
			return err
		},
	} {
		if err := create(); !apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), "'nothing' with binding 'nothing' denied request") {
			t.Errorf("webhooks: %v", err)
		}
	}
	if _, err := c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{}); err != nil {
		t.Errorf("review: %v", err)
	}
	if err := api.ValidatingAdmissionPolicies().Delete(t.Context(), "nothing", metav1.DeleteOptions{}); err != nil {
		t.Errorf("policy: %v", err)
	}
}
