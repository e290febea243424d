package core

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestQuotas(t *testing.T) {
	type object = *corev1.ResourceQuota
	type scope = corev1.ResourceQuotaScope
	hard := func(pairs ...string) func(object) { return func(q object) { q.Spec.Hard = amounts(pairs...) } }
	scopes := func(list []scope, pairs ...string) func(object) {
		return func(q object) { q.Spec.Scopes, q.Spec.Hard = list, amounts(pairs...) }
	}
	selects := func(name scope, op corev1.ScopeSelectorOperator, values ...string) func(object) {
		return func(q object) {
			q.Spec.ScopeSelector = &corev1.ScopeSelector{
				MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{ScopeName: name,
					Operator: op, Values: values}},
			}
		}
	}
	const unfit, at = "unsupported scope applied to resource", "scopeSelector.matchExpressions"
	checkRules(t, "spec.", func() object { return &corev1.ResourceQuota{} }, ValidateQuota, []ruleCase[object]{
		{"resources", hard("cpu", "1", "limits.memory", "1Gi", "pods", "1", "count/jobs.batch", "1",
			"requests.hugepages-2Mi", "2Mi", "services.nodeports", "0"), nil},
		{"another resource", hard("storage", "1"),
			texts{`hard[storage]: Invalid value: "storage": must be a standard resource for quota`}},
		{"unknown resource", hard("gpu", "1"),
			texts{`hard[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified`,
				`hard[gpu]: Invalid value: "gpu": must be a standard resource for quota`}},
		{"half a pod", hard("pods", "500m"), texts{`hard[pods]: Invalid value: "500m": must be an integer`}},
		{"negative", hard("cpu", "-1"), texts{`hard[cpu]: Invalid value: "-1": must be greater than or equal to 0`}},
		{"terminating", scopes([]scope{"Terminating"}, "cpu", "1", "pods", "1", "count/a.b", "1"), nil},
		{"scope of secrets", scopes([]scope{"Terminating"}, "secrets", "1"),
			texts{`scopes: Invalid value: ["Terminating"]: ` + unfit}},
		{"best effort of cpu", scopes([]scope{"BestEffort"}, "cpu", "1", "pods", "1"),
			texts{`scopes: Invalid value: ["BestEffort"]: ` + unfit}},
		{"attributes", scopes([]scope{"VolumeAttributesClass"}, "persistentvolumeclaims", "1", "requests.storage", "1"),
			nil},
		{"attributes of pods", scopes([]scope{"VolumeAttributesClass"}, "pods", "1"),
			texts{`scopes: Invalid value: ["VolumeAttributesClass"]: ` + unfit}},
		{"unknown scope", scopes([]scope{"A"}), texts{`scopes: Invalid value: ["A"]: unsupported scope`}},
		{"conflict", scopes([]scope{"BestEffort", "NotBestEffort"}),
			texts{`scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes`}},
		{"another conflict", scopes([]scope{"NotTerminating", "Terminating"}),
			texts{`scopes: Invalid value: ["NotTerminating","Terminating"]: conflicting scopes`}},
		{"selector", selects("PriorityClass", "In", "a"), nil},
		{"selector of nothing", selects("PriorityClass", "NotIn"),
			texts{at +
				".values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"}},
		{"value that exists", selects("PriorityClass", "Exists", "a"),
			texts{at +
				".values: Invalid value: [\"a\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope " +
				"selector"}},
		{"operator", selects("PriorityClass", "Is"),
			texts{at + `.operator: Invalid value: "Is": not a valid selector operator`}},
		{"scope that exists", selects("BestEffort", "Exists"), nil},
		{"scope that doesn't", selects("BestEffort", "DoesNotExist"),
			texts{at + `.operator: Invalid value: "DoesNotExist": must be 'Exists' when scope is any of…`}},
		{"unknown selected scope", selects("A", "Exists"),
			texts{at + `.scopeName: Invalid value: "A": unsupported scope`}},
	})
	checkChanges(t, "", func() object { return &corev1.ResourceQuota{} }, ValidateQuotaUpdate, []changeCase[object]{
		{"amount", hard("pods", "1"), hard("pods", "2"), nil},
		{"order of scopes", scopes([]scope{"Terminating", "BestEffort"}), scopes([]scope{"BestEffort", "Terminating"}),
			nil},
		{"scope", nil, scopes([]scope{"BestEffort"}),
			texts{`spec.scopes: Invalid value: ["BestEffort"]: field is immutable`}},
	})
	checkChanges(t, "status.", func() object { return &corev1.ResourceQuota{} }, ValidateQuotaStatus,
		[]changeCase[object]{
			{"used", nil, func(q object) { q.Status.Hard, q.Status.Used = amounts("pods", "1"), amounts("pods", "1") },
				nil},
			{"bad", nil, func(q object) { q.Status.Hard, q.Status.Used = amounts("pods", "-1"), amounts("pods", "1m") },
				texts{
					`hard[pods]: Invalid value: "-1": must be greater than or equal to 0`,
					`used[pods]: Invalid value: "1m": must be an integer`}},
		})
	q := &corev1.ResourceQuota{}
	hard("cpu", "2", "limits.cpu", "1", "requests.memory", "1Gi", "memory", "3Gi", "limits.memory", "2Gi")(q)
	sameTexts(t, QuotaWarnings(q, nil), texts{"ResourceQuota cpu (2) should be less than limits.cpu (1)"})
	sameTexts(t, QuotaWarnings(q, q), nil)
	q.Name, q.Status.Hard, q.Status.Used = "q", amounts("pods", "3", "limits.cpu", "2", "cpu", "1"),
		amounts("pods", "1")
	sameRow(t, QuotaColumns(), QuotaRow(q), "q", "cpu: 0/1, pods: 1/3", "limits.cpu: 0/2", "<unknown>")
}

func TestLimitRanges(t *testing.T) {
	type object = *corev1.LimitRange
	with := func(list ...corev1.LimitRangeItem) func(object) { return func(l object) { l.Spec.Limits = list } }
	type item = corev1.LimitRangeItem
	checkRules(t, "spec.limits[0].", func() object { return &corev1.LimitRange{} }, ValidateLimitRange,
		[]ruleCase[object]{
			{"container",
				with(item{Type: "Container", Min: amounts("cpu", "1"), DefaultRequest: amounts("cpu", "2"),
					Default: amounts("cpu", "3"), Max: amounts("cpu", "4")}), nil},
			{"no type", with(item{}), texts{`type: Invalid value: "": name part must be non-empty`,
				`type: Invalid value: "": name part must consist of…`}},
			{"unknown type", with(item{Type: "Node"}),
				texts{`type: Invalid value: "Node": must be a standard limit type or fully qualified`}},
			{"type of another domain", with(item{Type: "a.b/C", Max: amounts("storage", "1")}), nil},
			{"type twice", with(item{Type: "Pod"}, item{Type: "Pod"}),
				texts{`spec.limits[1].type: Duplicate value: "Pod"`}},
			{"defaults of a pod",
				with(item{Type: "Pod", Default: amounts("cpu", "1"), DefaultRequest: amounts("cpu", "1")}), texts{
					"default: Forbidden: may not be specified when `type` is 'Pod'",
					"defaultRequest: Forbidden: may not be specified when `type` is 'Pod'"}},
			{"claim", with(item{Type: "PersistentVolumeClaim", Min: amounts("storage", "1")}), nil},
			{"claim without bounds", with(item{Type: "PersistentVolumeClaim"}),
				texts{"limits: Required value: either minimum or maximum storage value is required, but neither was provided"}},
			{"resource", with(item{Type: "Container", Max: amounts("storage", "1")}),
				texts{`max[storage]: Invalid value: "storage": must be a standard resource for containers`}},
			{"min above max", with(item{Type: "Pod", Min: amounts("cpu", "2"), Max: amounts("cpu", "1")}),
				texts{`min[cpu]: Invalid value: "2": min value 2 is greater than max value 1`}},
			{"request below min",
				with(item{Type: "Container", Min: amounts("cpu", "2"), DefaultRequest: amounts("cpu", "1")}),
				texts{`defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request value 1`}},
			{"request above max and default",
				with(item{Type: "Container", Max: amounts("cpu", "2"), Default: amounts("cpu", "1"),
					DefaultRequest: amounts("cpu", "3")}), texts{
					`defaultRequest[cpu]: Invalid value: "3": default request value 3 is greater than max value 2`,
					`defaultRequest[cpu]: Invalid value: "3": default request value 3 is greater than default limit value 1`}},
			{"default below min", with(item{Type: "Container", Min: amounts("cpu", "2"), Default: amounts("cpu", "1")}),
				texts{`default[cpu]: Invalid value: "2": min value 2 is greater than default value 1`}},
			{"default above max", with(item{Type: "Container", Max: amounts("cpu", "1"), Default: amounts("cpu", "2")}),
				texts{`default[cpu]: Invalid value: "1": default value 2 is greater than max value 1`}},
			{"devices",
				with(item{Type: "Container", Default: amounts("a.b/c", "2"), DefaultRequest: amounts("a.b/c", "1")}), texts{
					`defaultRequest[a.b/c]: Invalid value: "1": default value 2 must equal to defaultRequest value 1 in a.b/c`}},
		})
	l := &corev1.LimitRange{}
	with(item{Type: "Container", Max: amounts("cpu", "4", "memory", "4"), Default: amounts("cpu", "3"),
		Min: amounts("a.b/c", "1")}, item{Type: "Pod", Max: amounts("cpu", "4")})(l)
	DefaultLimitRange(l)
	again := l.DeepCopy()
	if DefaultLimitRange(again); !reflect.DeepEqual(l, again) {
		t.Errorf("defaults change %+v to %+v", l, again)
	}
	got, want := l.Spec.Limits[0], []corev1.ResourceList{amounts("cpu", "3", "memory", "4"),
		amounts("cpu", "3", "memory", "4", "a.b/c", "1")}
	if !apiequality.Semantic.DeepEqual(got.Default, want[0]) || !apiequality.Semantic.DeepEqual(got.DefaultRequest,
		want[1]) || l.Spec.Limits[1].Default != nil {
		t.Errorf("got %+v", l.Spec.Limits)
	}
	if NameLimitRange(t.Context(), l); l.Name == "" {
		t.Error("it has no name")
	}
}

func TestControllers(t *testing.T) {
	type object = *corev1.ReplicationController
	valid := func() object {
		r := &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: &corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}
		DefaultController(r)
		return r
	}
	checkRules(t, "spec.", valid, Rules{}.ValidateController, []ruleCase[object]{
		{"minimal", func(object) {}, nil},
		{"no selector", func(r object) { r.Spec.Selector = nil }, texts{"selector: Required value"}},
		{"another selector", func(r object) { r.Spec.Selector = map[string]string{"a": "c"} },
			texts{"template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`"}},
		{"negative", func(r object) { r.Spec.MinReadySeconds, r.Spec.Replicas = -1, new(int32(-2)) }, texts{
			"minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
			"replicas: Invalid value: -2: must be greater than or equal to 0"}},
		{"no replicas", func(r object) { r.Spec.Replicas = nil }, texts{"replicas: Required value"}},
		{"no template", func(r object) { r.Spec.Template = nil }, texts{"template: Required value"}},
		{"pods that end", func(r object) { r.Spec.Template.Spec.RestartPolicy = "Never" },
			texts{`template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`}},
	})
	checkChanges(t, "status.", valid, ValidateControllerStatus, []changeCase[object]{
		{"counts", nil, func(r object) {
			r.Status = corev1.ReplicationControllerStatus{Replicas: 3, FullyLabeledReplicas: 3, ReadyReplicas: 2,
				AvailableReplicas: 2}
		}, nil},
		{"too many", nil, func(r object) {
			r.Status = corev1.ReplicationControllerStatus{Replicas: 1, FullyLabeledReplicas: 2, ReadyReplicas: 3,
				AvailableReplicas: 4}
		}, texts{"fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas",
			"readyReplicas: Invalid value: 3: cannot be greater than status.replicas",
			"availableReplicas: Invalid value: 4: cannot be greater than status.replicas",
			"availableReplicas: Invalid value: 4: cannot be greater than readyReplicas"}},
		{"negative", nil, func(r object) { r.Status.ObservedGeneration = -1 },
			texts{"observedGeneration: Invalid value: -1: must be greater than or equal to 0"}},
	})
	r := valid()
	if *r.Spec.Replicas != 1 || r.Spec.Selector["a"] != "b" || r.Labels["a"] != "b" {
		t.Errorf("defaults: %+v", r)
	}
	r.Name, r.Status.Replicas = "r", 2
	sameRow(t, ControllerColumns(), ControllerRow(r), "r", int64(1), int64(2), int64(0), "<unknown>", "c", "i", "a=b")
	p := &corev1.PodTemplate{Template: *r.Spec.Template}
	sameRow(t, PodTemplateColumns(), PodTemplateRow(p), "", "c", "i", "a=b")
	p.Template.Spec.Containers = nil
	sameTexts(t, errorsBelow("", Rules{}.ValidatePodTemplate(p)), texts{"template.spec.containers: Required value"})
	sameTexts(t, errorsBelow("", Rules{}.ValidatePodTemplateUpdate(p, p)),
		texts{"template.spec.containers: Required value"})
}
