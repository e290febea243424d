package nodedeclaredfeatures

import (
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// restarting has a rule that restarts all containers, which a kubelet must know.
func restarting(p *v1.Pod) {
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
		Action: v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
			Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
}

func declaring(name string, features ...string) *v1.Node {
	n := schedulertest.Node(name, "")
	n.Status.DeclaredFeatures = features
	return n
}

func TestFilter(t *testing.T) {
	const feature = "RestartAllContainersOnContainerExits"
	s := schedulertest.Snapshot(declaring("has", "Another", feature), declaring("hasnt", "Another"), declaring("none"))
	const refused = "!node declared features check failed - unsatisfied requirements: " + feature
	plugin := &Plugin{Version: version.MajorMinor(1, 36)}
	for name, c := range map[string]struct {
		change func(*v1.Pod)
		want   map[string]string
	}{
		"needs nothing":     {nil, map[string]string{}},
		"needs the feature": {restarting, map[string]string{"hasnt": refused, "none": refused}},
	} {
		if got := schedulertest.Check(plugin, schedulertest.Pod("p", "", c.change), s); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	if test, refusal := plugin.Filter(snapshot.NewPod(schedulertest.Pod("p", "", nil)), s); test != nil || refusal != nil {
		t.Errorf("a pod that needs nothing is tested: %v, %v", test, refusal)
	}
}

func TestHints(t *testing.T) {
	hints := queue.Hints{Name: (&Plugin{}).Hints()}
	if got := strings.Join(hints.Events(Name), " "); got != "NodeAdd NodeDeclaredFeatureUpdate" {
		t.Errorf("events %s", got)
	}
}
