package nodes

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestReady(t *testing.T) {
	node := func(conditions ...v1.NodeCondition) *v1.Node {
		return &v1.Node{Status: v1.NodeStatus{Conditions: conditions}}
	}
	other := v1.NodeCondition{Type: v1.NodeDiskPressure, Status: v1.ConditionTrue}
	for name, c := range map[string]struct {
		node *v1.Node
		want v1.ConditionStatus
	}{
		"no conditions":  {node(), v1.ConditionUnknown},
		"only another":   {node(other), v1.ConditionUnknown},
		"ready":          {node(other, v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue}), v1.ConditionTrue},
		"not ready":      {node(v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionFalse}), v1.ConditionFalse},
		"lost from view": {node(v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionUnknown}), v1.ConditionUnknown},
	} {
		if got := Ready(c.node); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	n := node(other)
	Condition(n, v1.NodeDiskPressure).Reason = "r"
	if n.Status.Conditions[0].Reason != "r" {
		t.Error("the condition is a copy")
	}
}

// taints makes taints from "key[=value]:effect" words.
func taints(text string) []v1.Taint {
	var all []v1.Taint
	for word := range strings.FieldsSeq(text) {
		key, effect, _ := strings.Cut(word, ":")
		key, value, _ := strings.Cut(key, "=")
		all = append(all, v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)})
	}
	return all
}

func show(all []v1.Taint) string {
	var words []string
	for _, t := range all {
		words = append(words, strings.TrimSuffix(strings.Replace(t.ToString(), "=:", ":", 1), ":"))
	}
	return strings.Join(words, " ")
}

func TestWithTaints(t *testing.T) {
	now := metav1.NewTime(time.Unix(5000, 0))
	for name, c := range map[string]struct {
		have, add, remove string
		want              string
		changed           bool
		stamped           int
	}{
		"nothing to do": {},
		"keeps others":  {have: "a:NoSchedule", want: "a:NoSchedule"},
		"adds": {have: "a:NoSchedule", add: "b:NoExecute", want: "a:NoSchedule b:NoExecute",
			changed: true, stamped: 1},
		"has it": {have: "b:NoExecute", add: "b:NoExecute", want: "b:NoExecute"},
		"same key, other effect": {have: "b:NoSchedule", add: "b:NoExecute", want: "b:NoSchedule b:NoExecute",
			changed: true, stamped: 1},
		"the value doesn't matter": {have: "b=x:NoExecute", add: "b=y:NoExecute", want: "b=x:NoExecute"},
		"removes": {have: "a:NoSchedule b:NoExecute", remove: "b:NoExecute", want: "a:NoSchedule",
			changed: true},
		"removes whatever value": {have: "b=x:NoExecute", remove: "b:NoExecute", changed: true},
		"other effect stays":     {have: "b:NoSchedule", remove: "b:NoExecute", want: "b:NoSchedule"},
		"not there":              {have: "a:NoSchedule", remove: "b:NoExecute", want: "a:NoSchedule"},
		"swaps": {have: "a:NoExecute", add: "b:NoExecute", remove: "a:NoExecute", want: "b:NoExecute",
			changed: true, stamped: 1},
		"in both: added afresh": {have: "a:NoExecute", add: "a:NoExecute", remove: "a:NoExecute", want: "a:NoExecute",
			changed: true, stamped: 1},
		"added twice: there once": {add: "a:NoExecute a:NoExecute", want: "a:NoExecute", changed: true, stamped: 1},
		"several of one key remain": {have: "a:NoExecute a:NoSchedule", remove: "a:NoExecute", want: "a:NoSchedule",
			changed: true},
	} {
		have := taints(c.have)
		got, changed := WithTaints(have, taints(c.add), taints(c.remove), now)
		stamped := 0
		for _, taint := range got {
			if taint.TimeAdded != nil && taint.TimeAdded.Equal(&now) {
				stamped++
			}
		}
		if show(got) != c.want || changed != c.changed || stamped != c.stamped {
			t.Errorf("%s: %q, changed %v, %d stamped; want %q, %v, %d", name, show(got), changed, stamped, c.want, c.changed,
				c.stamped)
		}
		if show(have) != show(taints(c.have)) {
			t.Errorf("%s: the node's own taints were changed", name)
		}
	}
}

func TestHasTaint(t *testing.T) {
	node := &v1.Node{Spec: v1.NodeSpec{Taints: taints("a=x:NoExecute b:NoSchedule")}}
	for taint, want := range map[string]bool{"a:NoExecute": true, "a=y:NoExecute": true, "a:NoSchedule": false,
		"b:NoSchedule": true, "c:NoSchedule": false} {
		if got := HasTaint(node, taints(taint)[0]); got != want {
			t.Errorf("%s: %v", taint, got)
		}
	}
}

// TestPatch names the version that was decided on, and replaces the taints even by none.
func TestPatch(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: "7"}}
	for name, c := range map[string]struct {
		taints []v1.Taint
		labels map[string]string
		want   string
	}{
		"no taints": {want: `{"metadata":{"resourceVersion":"7","uid":"u"},"spec":{"taints":[]}}`},
		"labels": {labels: map[string]string{"a": "b"},
			want: `{"metadata":{"labels":{"a":"b"},"resourceVersion":"7","uid":"u"},"spec":{"taints":[]}}`},
		"taints": {taints: taints("a:NoExecute"),
			want: `{"metadata":{"resourceVersion":"7","uid":"u"},"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`},
	} {
		client := fake.NewClientset(node)
		if err := Patch(t.Context(), client, node, c.taints, c.labels); err != nil {
			t.Fatal(err)
		}
		patch, ok := client.Actions()[0].(clienttesting.PatchAction)
		if !ok || patch.GetName() != "n" || fmt.Sprint(patch.GetPatchType()) != "application/merge-patch+json" ||
			!json.Valid(patch.GetPatch()) || string(patch.GetPatch()) != c.want {
			t.Errorf("%s: %s, want %s", name, patch.GetPatch(), c.want)
		}
	}
	if err := Patch(t.Context(), fake.NewClientset(), node, nil, nil); err == nil {
		t.Error("a node that is gone gives no error")
	}
}

func TestReference(t *testing.T) {
	want := v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "n"}
	if got := *Reference("n"); got != want {
		t.Errorf("%+v", got)
	}
}
