package plugins

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/plugins/defaultpreemption"
	"quintet.dev/quintet/components/scheduler/plugins/interpodaffinity"
	"quintet.dev/quintet/components/scheduler/plugins/nodeaffinity"
	"quintet.dev/quintet/components/scheduler/plugins/noderesources"
	"quintet.dev/quintet/components/scheduler/plugins/podtopologyspread"
	"quintet.dev/quintet/components/scheduler/plugins/volumebinding"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// points names what a plug-in does, in upstream's words.
func points(p Parts) string {
	var names []string
	for _, point := range []struct {
		name string
		is   bool
	}{
		{"queueSort", p.QueueSort != nil}, {"preEnqueue", p.Gate != nil}, {"filter", p.Filter != nil},
		{"postFilter", p.PostFilter != nil}, {"score", p.Score != nil}, {"reserve", p.Reserve != nil},
		{"permit", p.Permit != nil}, {"preBind", p.PreBind != nil}, {"bind", p.Bind != nil},
		{"postBind", p.PostBind != nil},
	} {
		if point.is {
			names = append(names, point.name)
		}
	}
	return strings.Join(names, " ")
}

// TestDefault holds the plug-ins that matter to every pod to upstream's names, weights and extension points.
func TestDefault(t *testing.T) {
	type plugin struct {
		weight int64
		points string
	}
	want := map[string]plugin{
		"SchedulingGates":                 {0, "preEnqueue"},
		"PrioritySort":                    {0, "queueSort"},
		"NodeUnschedulable":               {0, "filter"},
		"NodeName":                        {0, "filter"},
		"TaintToleration":                 {3, "filter score"},
		"NodeAffinity":                    {2, "filter score"},
		"NodePorts":                       {0, "filter"},
		"NodeResourcesFit":                {1, "filter score"},
		"VolumeRestrictions":              {0, "filter"},
		"NodeVolumeLimits":                {0, "filter"},
		"VolumeBinding":                   {0, "filter reserve preBind"},
		"VolumeZone":                      {0, "filter"},
		"PodTopologySpread":               {2, "filter score"},
		"InterPodAffinity":                {2, "filter score"},
		"DefaultPreemption":               {0, "postFilter"},
		"NodeResourcesBalancedAllocation": {1, "score"},
		"ImageLocality":                   {1, "score"},
		"DefaultBinder":                   {0, "bind"},
		"NodeDeclaredFeatures":            {0, "filter"},
	}
	seen := map[string]bool{}
	for _, e := range Default() {
		made, err := e.New(nil, Dependencies{})
		if err != nil {
			t.Errorf("%s with defaults: %v", e.Name, err)
			continue
		}
		if seen[e.Name] || made.Name() != e.Name {
			t.Errorf("%s is listed twice, or as %s", made.Name(), e.Name)
		}
		seen[e.Name] = true
		w, ok := want[e.Name]
		if got := (plugin{e.Weight, points(PartsOf(made))}); ok && got != w {
			t.Errorf("%s: %+v, want %+v", e.Name, got, w)
		}
	}
	for name := range want {
		if !seen[name] {
			t.Errorf("%s is missing", name)
		}
	}
}

// TestWithoutArguments: a plug-in that takes none refuses them, and one that does refuses those of another.
func TestWithoutArguments(t *testing.T) {
	for _, e := range Default() {
		_, err := e.New(&configv1.KubeSchedulerConfiguration{}, Dependencies{})
		if err == nil {
			t.Errorf("%s takes arguments of another type", e.Name)
			continue
		}
		want := "takes no arguments"
		if e.Whole != nil {
			want = "arguments of type *v1.KubeSchedulerConfiguration"
			if e.Whole(&configv1.KubeSchedulerConfiguration{}) != nil {
				t.Errorf("%s completes arguments of another type", e.Name)
			}
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", e.Name, err, want)
		}
	}
}

func entry(t *testing.T, name string) Entry {
	t.Helper()
	at := slices.IndexFunc(Default(), func(e Entry) bool { return e.Name == name })
	if at < 0 {
		t.Fatalf("no plug-in %s", name)
	}
	return Default()[at]
}

func fitArgs(s configv1.ScoringStrategy) runtime.Object {
	return &configv1.NodeResourcesFitArgs{ScoringStrategy: &s}
}

func ratio(points ...int32) configv1.ScoringStrategy {
	param := &configv1.RequestedToCapacityRatioParam{}
	for i := 0; i+1 < len(points); i += 2 {
		param.Shape = append(param.Shape, configv1.UtilizationShapePoint{Utilization: points[i], Score: points[i+1]})
	}
	return configv1.ScoringStrategy{Type: configv1.RequestedToCapacityRatio, RequestedToCapacityRatio: param}
}

func spreadArgs(kind configv1.PodTopologySpreadConstraintsDefaulting, c ...v1.TopologySpreadConstraint) runtime.Object {
	return &configv1.PodTopologySpreadArgs{DefaultingType: kind, DefaultConstraints: c}
}

// TestArguments: a value that is out of range gives an error that names its field.
func TestArguments(t *testing.T) {
	zone := v1.TopologySpreadConstraint{TopologyKey: "zone", MaxSkew: 1, WhenUnsatisfiable: v1.ScheduleAnyway}
	change := func(f func(*v1.TopologySpreadConstraint)) v1.TopologySpreadConstraint {
		c := zone
		f(&c)
		return c
	}
	weights := func(weights ...int64) configv1.ScoringStrategy {
		var s configv1.ScoringStrategy
		for _, w := range weights {
			s.Resources = append(s.Resources, configv1.ResourceSpec{Name: "cpu", Weight: w})
		}
		return s
	}
	for i, c := range []struct {
		plugin string
		args   runtime.Object
		want   string // "" is no error
	}{
		{noderesources.FitName, fitArgs(weights(1, 100)), ""},
		{noderesources.FitName, fitArgs(weights(1, 101)), "resources[1].weight: 101 is not in 1-100"},
		{noderesources.FitName, fitArgs(weights(-1)), "resources[0].weight: -1 is not in 1-100"},
		{noderesources.FitName, fitArgs(configv1.ScoringStrategy{Type: "Odd"}), `scoringStrategy.type: unknown "Odd"`},
		{noderesources.FitName, fitArgs(ratio(0, 0, 100, 10)), ""},
		{noderesources.FitName, fitArgs(ratio()), "requestedToCapacityRatio.shape: at least one point is needed"},
		{noderesources.FitName, fitArgs(ratio(0, 0, 101, 10)), "shape[1].utilization: 101 is not in 0-100"},
		{noderesources.FitName, fitArgs(ratio(-1, 0)), "shape[0].utilization: -1 is not in 0-100"},
		{noderesources.FitName, fitArgs(ratio(0, 11)), "shape[0].score: 11 is not in 0-10"},
		{noderesources.FitName, fitArgs(ratio(0, -1)), "shape[0].score: -1 is not in 0-10"},
		{noderesources.FitName, fitArgs(ratio(50, 1, 50, 2)), "shape[1].utilization: must be greater"},
		{noderesources.FitName, fitArgs(ratio(50, 1, 40, 2)), "shape[1].utilization: must be greater"},
		{noderesources.BalancedName, &configv1.NodeResourcesBalancedAllocationArgs{
			Resources: []configv1.ResourceSpec{{Name: "cpu", Weight: 1}}}, ""},
		{noderesources.BalancedName, &configv1.NodeResourcesBalancedAllocationArgs{
			Resources: []configv1.ResourceSpec{{Name: "cpu", Weight: -5}}}, "resources[0].weight: -5"},

		{podtopologyspread.Name, spreadArgs("", zone), "defaultConstraints: must be empty unless defaultingType is List"},
		{podtopologyspread.Name, spreadArgs(configv1.ListDefaulting, zone), ""},
		{podtopologyspread.Name, spreadArgs(configv1.ListDefaulting), ""},
		{podtopologyspread.Name, spreadArgs("Mine"), `defaultingType: unknown "Mine", use System or List`},
		{podtopologyspread.Name, spreadArgs(configv1.ListDefaulting, zone,
			change(func(c *v1.TopologySpreadConstraint) { c.MaxSkew = 0 })), "defaultConstraints[1]: topologyKey and"},
		{podtopologyspread.Name, spreadArgs(configv1.ListDefaulting,
			change(func(c *v1.TopologySpreadConstraint) { c.TopologyKey = "" })), "defaultConstraints[0]: topologyKey and"},
		{podtopologyspread.Name, spreadArgs(configv1.ListDefaulting,
			change(func(c *v1.TopologySpreadConstraint) { c.WhenUnsatisfiable = "Never" })),
			`defaultConstraints[0].whenUnsatisfiable: unknown "Never"`},

		{interpodaffinity.Name, &configv1.InterPodAffinityArgs{HardPodAffinityWeight: ptr.To[int32](100)}, ""},
		{interpodaffinity.Name, &configv1.InterPodAffinityArgs{HardPodAffinityWeight: ptr.To[int32](0)}, ""},
		{interpodaffinity.Name, &configv1.InterPodAffinityArgs{HardPodAffinityWeight: ptr.To[int32](101)},
			"hardPodAffinityWeight: 101 is not in 0-100"},
		{interpodaffinity.Name, &configv1.InterPodAffinityArgs{HardPodAffinityWeight: ptr.To[int32](-1)},
			"hardPodAffinityWeight: -1 is not in 0-100"},

		{defaultpreemption.Name, preemptionArgs(0, 1), ""},
		{defaultpreemption.Name, preemptionArgs(100, 0), ""},
		{defaultpreemption.Name, preemptionArgs(101, 1), "minCandidateNodesPercentage: 101 is not in 0-100"},
		{defaultpreemption.Name, preemptionArgs(-1, 1), "minCandidateNodesPercentage: -1 is not in 0-100"},
		{defaultpreemption.Name, preemptionArgs(1, -1), "minCandidateNodesAbsolute: -1 is negative"},
		{defaultpreemption.Name, preemptionArgs(0, 0), "minCandidateNodesPercentage and minCandidateNodesAbsolute"},

		{volumebinding.Name, &configv1.VolumeBindingArgs{BindTimeoutSeconds: ptr.To[int64](0)}, ""},
		{volumebinding.Name, &configv1.VolumeBindingArgs{BindTimeoutSeconds: ptr.To[int64](-1)},
			"bindTimeoutSeconds: -1 is negative"},
		{volumebinding.Name, &configv1.VolumeBindingArgs{Shape: []configv1.UtilizationShapePoint{{}}},
			"shape: needs the feature gate StorageCapacityScoring"},

		{nodeaffinity.Name, &configv1.NodeAffinityArgs{AddedAffinity: added(v1.NodeSelectorOpIn, "a")}, ""},
		{nodeaffinity.Name, &configv1.NodeAffinityArgs{AddedAffinity: added("Odd", "a")}, `"Odd"`},
		{nodeaffinity.Name, &configv1.NodeAffinityArgs{AddedAffinity: added(v1.NodeSelectorOpGt, "one")}, "one"},
	} {
		_, err := entry(t, c.plugin).New(c.args, Dependencies{})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d, %s: error %v, want %q", i, c.plugin, err, c.want)
		}
	}
}

func preemptionArgs(percentage, absolute int32) runtime.Object {
	return &configv1.DefaultPreemptionArgs{MinCandidateNodesPercentage: &percentage, MinCandidateNodesAbsolute: &absolute}
}

func added(operator v1.NodeSelectorOperator, value string) *v1.NodeAffinity {
	return &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
			{Key: "k", Operator: operator, Values: []string{value}}}}}}}
}

// TestWhole: arguments get the defaults of what they leave open, and the given object stays as it is.
func TestWhole(t *testing.T) {
	given := &configv1.NodeResourcesFitArgs{ScoringStrategy: &configv1.ScoringStrategy{
		Resources: []configv1.ResourceSpec{{Name: "example.com/gpu"}}}}
	for name, c := range map[string]struct {
		args any
		want string
	}{
		noderesources.FitName:      {given, "LeastAllocated [{example.com/gpu 1}]"},
		noderesources.BalancedName: {nil, "[{cpu 1} {memory 1}]"},
		podtopologyspread.Name:     {nil, "System"},
		interpodaffinity.Name:      {nil, "1"},
		defaultpreemption.Name:     {nil, "10 100"},
		volumebinding.Name:         {nil, "600"},
	} {
		got := ""
		switch a := entry(t, name).Whole(c.args).(type) {
		case *configv1.NodeResourcesFitArgs:
			got = fmt.Sprint(a.ScoringStrategy.Type, " ", a.ScoringStrategy.Resources)
		case *configv1.NodeResourcesBalancedAllocationArgs:
			got = fmt.Sprint(a.Resources)
		case *configv1.PodTopologySpreadArgs:
			got = string(a.DefaultingType)
		case *configv1.InterPodAffinityArgs:
			got = fmt.Sprint(*a.HardPodAffinityWeight)
		case *configv1.DefaultPreemptionArgs:
			got = fmt.Sprint(*a.MinCandidateNodesPercentage, *a.MinCandidateNodesAbsolute)
		case *configv1.VolumeBindingArgs:
			got = fmt.Sprint(*a.BindTimeoutSeconds)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if given.ScoringStrategy.Type != "" || given.ScoringStrategy.Resources[0].Weight != 0 {
		t.Errorf("the given arguments were changed: %+v", given.ScoringStrategy)
	}
}

// TestArgumentsAreUsed: what arguments say shows in what the plug-in does.
func TestArgumentsAreUsed(t *testing.T) {
	made := func(name string, args any) Parts {
		t.Helper()
		p, err := entry(t, name).New(args, Dependencies{})
		if err != nil {
			t.Fatal(err)
		}
		return PartsOf(p)
	}
	s := schedulertest.Snapshot(schedulertest.Node("a", "cpu=4 memory=4Gi zone=a"),
		schedulertest.Node("b", "cpu=4 memory=4Gi"), schedulertest.Pod("there", "node=a cpu=2 memory=2Gi", nil))
	pod := schedulertest.Pod("p", "cpu=1 memory=1Gi", nil)
	most := made(noderesources.FitName, fitArgs(configv1.ScoringStrategy{Type: configv1.MostAllocated}))
	least := made(noderesources.FitName, nil)
	full := made(noderesources.FitName, fitArgs(ratio(0, 0, 100, 10)))
	if got := schedulertest.Scores(least.Score, pod, s); got["a"] != 25 || got["b"] != 75 {
		t.Errorf("LeastAllocated: %v", got)
	}
	if got := schedulertest.Scores(most.Score, pod, s); got["a"] != 75 || got["b"] != 25 {
		t.Errorf("MostAllocated: %v", got)
	}
	if got := schedulertest.Scores(full.Score, pod, s); got["a"] != 75 || got["b"] != 25 {
		t.Errorf("RequestedToCapacityRatio: %v", got)
	}
	ignoring := made(noderesources.FitName, &configv1.NodeResourcesFitArgs{
		IgnoredResources: []string{"example.com/gpu"}, IgnoredResourceGroups: []string{"other.com"}})
	wanting := schedulertest.Pod("p", "example.com/gpu=1", nil)
	if got := schedulertest.Check(ignoring.Filter, wanting, s); len(got) != 0 {
		t.Errorf("an ignored resource: %v", got)
	}
	enforced := made(nodeaffinity.Name, &configv1.NodeAffinityArgs{AddedAffinity: &v1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpExists}}}}}}})
	want := map[string]string{"b": "!node(s) didn't match scheduler-enforced node affinity"}
	if got := schedulertest.Check(enforced.Filter, pod, s); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("added affinity: %v", got)
	}
}

// TestPrioritySort: the pod of higher priority is tried first; a pod without one has priority 0.
func TestPrioritySort(t *testing.T) {
	sort := PartsOf(mustMake(t, "PrioritySort")).QueueSort
	item := func(spec string) *queue.Item {
		return &queue.Item{Pod: snapshot.NewPod(schedulertest.Pod("p", spec, nil))}
	}
	for name, c := range map[string]struct {
		a, b string
		want bool
	}{
		"higher": {"priority=2", "priority=1", true}, "lower": {"priority=1", "priority=2", false},
		"none is 0": {"", "priority=-1", true}, "alike": {"priority=0", "", false},
	} {
		if got := sort.Less(item(c.a), item(c.b)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func mustMake(t *testing.T, name string) Plugin {
	t.Helper()
	made, err := entry(t, name).New(nil, Dependencies{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}
