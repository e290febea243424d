package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestTolerations(t *testing.T) {
	type toleration = corev1.Toleration
	with := func(list ...toleration) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.Tolerations = list }
	}
	const all = `operator must be Exists when ` + "`key`" + ` is empty, which means "match all values and all keys"`
	checkSpecs(t, "spec.tolerations[0].", []specCase{
		{"everything", with(toleration{Operator: "Exists"}), nil},
		{"key", with(toleration{Key: "a.b/c", Operator: "Exists", Effect: "NoSchedule"}), nil},
		{"value", with(toleration{Key: "a", Operator: "Equal", Value: "b", Effect: "PreferNoSchedule"}), nil},
		{"no operator", with(toleration{Key: "a", Value: "b"}), nil},
		{"neither key nor operator", with(toleration{}), texts{`operator: Invalid value: "": ` + all}},
		{"value without a key", with(toleration{Operator: "Equal"}), texts{`operator: Invalid value: "Equal": ` + all}},
		{"bad key", with(toleration{Key: "a b", Operator: "Exists"}),
			texts{`key: Invalid value: "a b": name part must consist of…`}},
		{"bad value", with(toleration{Key: "a", Value: "-"}),
			texts{`operator: Invalid value: "-": a valid label must be…`}},
		{"value that exists", with(toleration{Key: "a", Operator: "Exists", Value: "b"}),
			texts{"operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'"}},
		{"unknown operator", with(toleration{Key: "a", Operator: "In"}),
			texts{`operator: Unsupported value: "In": supported values: "Equal", "Exists"`}},
		{"comparison", with(toleration{Key: "a", Operator: "Lt", Value: "1"}),
			texts{`operator: Unsupported value: "Lt": supported values: "Equal", "Exists", "Lt", "Gt"`}},
		{"for some time",
			with(toleration{Key: "a", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(-1))}),
			nil},
		{"for some time, of another effect",
			with(toleration{Key: "a", Operator: "Exists", Effect: "NoSchedule", TolerationSeconds: new(int64(1))}),
			texts{"effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set"}},
		{"for some time, of any effect", with(toleration{Operator: "Exists", TolerationSeconds: new(int64(1))}),
			texts{"effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set"}},
		{"unknown effect", with(toleration{Operator: "Exists", Effect: "Evict"}),
			texts{`effect: Unsupported value: "Evict": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`}},
	})
	// Where comparisons are stored, their values are numbers (KEP-5471).
	old := &oldState{spec: &corev1.PodSpec{Tolerations: []toleration{{Key: "k", Operator: "Gt", Value: "1"}}}}
	for value, want := range map[string]texts{
		"5": nil, "-5": nil, "0": nil, "": {"must be non-empty", `strconv.ParseInt: parsing "": invalid syntax`},
		"05":                  {"must be a valid decimal integer in canonical form"},
		"5.0":                 {"must be a valid decimal integer", `strconv.ParseInt: parsing "5.0": invalid syntax`},
		"9223372036854775808": {`strconv.ParseInt: parsing "9223372036854775808": value out of range`},
	} {
		for i := range want {
			want[i] = `[0].value: Invalid value: "` + value + `": ` + want[i] + "…"
		}
		list := []toleration{{Key: "k", Operator: "Lt", Value: value}}
		t.Run("number "+value,
			func(t *testing.T) { sameTexts(t, errorsBelow("", validateTolerations(list, old, nil)), want) })
	}
}

func TestTaintEffect(t *testing.T) {
	for _, c := range []struct {
		effect corev1.TaintEffect
		empty  bool
		want   texts
	}{
		{"NoSchedule", false, nil}, {"PreferNoSchedule", false, nil}, {"NoExecute", false, nil}, {"", true, nil},
		{"", false, texts{"p: Required value"}},
		{"No", true,
			texts{`p: Unsupported value: "No": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`}},
	} {
		sameTexts(t, errorsBelow("", TaintEffect(c.effect, c.empty, field.NewPath("p"))), c.want)
	}
}

func TestSchedulingGates(t *testing.T) {
	with := func(names ...string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			for _, name := range names {
				s.SchedulingGates = append(s.SchedulingGates, corev1.PodSchedulingGate{Name: name})
			}
		}
	}
	checkSpecs(t, "spec.schedulingGates", []specCase{
		{"two", with("a", "example.com/B_c"), nil},
		{"none", with(""), texts{`[0]: Invalid value: "": name part must be non-empty`,
			`[0]: Invalid value: "": name part must consist of…`}},
		{"bad", with("a", "b c"), texts{`[1]: Invalid value: "b c": name part must consist of…`}},
		{"twice", with("a", "b", "a"), texts{`[2]: Duplicate value: "a"`}},
	})
}

func TestSpreadConstraints(t *testing.T) {
	type constraint = corev1.TopologySpreadConstraint
	with := func(list ...func(c *constraint)) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			for _, change := range list {
				c := constraint{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: "DoNotSchedule",
					LabelSelector: &metav1.LabelSelector{}}
				change(&c)
				s.TopologySpreadConstraints = append(s.TopologySpreadConstraints, c)
			}
		}
	}
	same := func(*constraint) {}
	checkSpecs(t, "spec.topologySpreadConstraints[0].", []specCase{
		{"minimal", with(same), nil},
		{"skew", with(func(c *constraint) { c.MaxSkew = -1 }),
			texts{"maxSkew: Invalid value: -1: must be greater than zero"}},
		{"no action", with(func(c *constraint) { c.WhenUnsatisfiable = "" }),
			texts{`whenUnsatisfiable: Unsupported value: "": supported values: "DoNotSchedule", "ScheduleAnyway"`}},
		{"two keys", with(same, func(c *constraint) { c.TopologyKey = "host" }), nil},
		{"two actions", with(same, func(c *constraint) { c.WhenUnsatisfiable = "ScheduleAnyway" }), nil},
		{"one twice", with(same, func(c *constraint) { c.MaxSkew = 2 }),
			texts{`{topologyKey, whenUnsatisfiable}: Duplicate value: "{zone, DoNotSchedule}"`}},
		{"domains", with(func(c *constraint) { c.MinDomains = new(int32(1)) }), nil},
		{"no domains", with(func(c *constraint) { c.MinDomains = new(int32(0)) }),
			texts{"minDomains: Invalid value: 0: must be greater than zero"}},
		{"domains that don't count",
			with(func(c *constraint) { c.MinDomains, c.WhenUnsatisfiable = new(int32(3)), "ScheduleAnyway" }),
			texts{"minDomains: Invalid value: 3: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not " +
				"ScheduleAnyway"}},
		{"policies", with(func(c *constraint) {
			c.NodeAffinityPolicy, c.NodeTaintsPolicy = new(corev1.NodeInclusionPolicyHonor),
				new(corev1.NodeInclusionPolicyIgnore)
		}), nil},
		{"bad policies", with(func(c *constraint) {
			c.NodeAffinityPolicy, c.NodeTaintsPolicy = new(corev1.NodeInclusionPolicy("A")),
				new(corev1.NodeInclusionPolicy(""))
		}), texts{`nodeAffinityPolicy: Unsupported value: "A": supported values: "Honor", "Ignore"`,
			`nodeTaintsPolicy: Unsupported value: "": supported values: "Honor", "Ignore"`}},
		{"selector", with(func(c *constraint) { c.LabelSelector = badSelector() }),
			texts{`labelSelector.matchExpressions[0].values[0]: Invalid value: "a b": a valid label must be…`}},
		{"keys", with(func(c *constraint) { c.MatchLabelKeys = texts{"a", "b"} }), nil},
		{"keys without a selector", with(func(c *constraint) { c.MatchLabelKeys, c.LabelSelector = texts{"a"}, nil }),
			texts{"matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"}},
		{"bad key", with(func(c *constraint) { c.MatchLabelKeys = texts{"a", "b c"} }),
			texts{`matchLabelKeys[1]: Invalid value: "b c": name part must consist of…`}},
	})
}
