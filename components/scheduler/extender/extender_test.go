package extender

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// TestCheck: a list of extenders that can't work is refused, and the error names the field.
func TestCheck(t *testing.T) {
	managed := func(names ...string) (out []configv1.ExtenderManagedResource) {
		for _, name := range names {
			out = append(out, configv1.ExtenderManagedResource{Name: name})
		}
		return out
	}
	for name, c := range map[string]struct {
		extenders []configv1.Extender
		want      string
	}{
		"none":              {nil, ""},
		"a weight":          {[]configv1.Extender{{PrioritizeVerb: "p", Weight: 1}}, ""},
		"no weight":         {[]configv1.Extender{{}, {PrioritizeVerb: "p"}}, "extenders[1].weight: 0: "},
		"weight of nothing": {[]configv1.Extender{{FilterVerb: "f"}}, ""},
		"negative timeout": {[]configv1.Extender{{HTTPTimeout: metav1.Duration{Duration: -1}}},
			"extenders[0].httpTimeout: "},
		"a binder":         {[]configv1.Extender{{BindVerb: "b"}, {FilterVerb: "f"}}, ""},
		"two binders":      {[]configv1.Extender{{BindVerb: "b"}, {BindVerb: "b"}}, "only one extender can implement bind"},
		"extended":         {[]configv1.Extender{{ManagedResources: managed("example.com/a", "example.com/b")}}, ""},
		"without a domain": {[]configv1.Extender{{ManagedResources: managed("cpu")}}, "managedResources[0].name: \"cpu\""},
		"Kubernetes' own": {[]configv1.Extender{{ManagedResources: managed("example.com/a", "kubernetes.io/b")}},
			"managedResources[1].name: \"kubernetes.io/b\" is an invalid"},
		"twice": {[]configv1.Extender{{ManagedResources: managed("example.com/a", "example.com/a")}},
			"managedResources[1].name: \"example.com/a\": duplicate"},
		"in two extenders": {[]configv1.Extender{{ManagedResources: managed("example.com/a")},
			{ManagedResources: managed("example.com/a")}}, ""},
	} {
		switch err := Check(c.extenders); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestIgnored: only what an extender takes from the scheduler is not checked by it.
func TestIgnored(t *testing.T) {
	got := Ignored([]configv1.Extender{
		{ManagedResources: []configv1.ExtenderManagedResource{{Name: "example.com/a", IgnoredByScheduler: true},
			{Name: "example.com/b"}}},
		{ManagedResources: []configv1.ExtenderManagedResource{{Name: "example.com/c", IgnoredByScheduler: true}}},
	})
	if want := []string{"example.com/a", "example.com/c"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func newOf(t *testing.T, c configv1.Extender) *Extender {
	t.Helper()
	all, err := NewAll([]configv1.Extender{c}, func(float64) {})
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// TestInterested: an extender sees pods of which a container asks for what it manages, and all if it manages nothing.
func TestInterested(t *testing.T) {
	list := func(name v1.ResourceName) v1.ResourceList { return v1.ResourceList{name: resource.MustParse("1")} }
	const mine, other = "example.com/mine", "example.com/other"
	for name, c := range map[string]struct {
		spec    v1.PodSpec
		managed bool
	}{
		"nothing": {v1.PodSpec{Containers: []v1.Container{{}}}, false},
		"other": {v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: list(other)}}}},
			false},
		"requests": {v1.PodSpec{Containers: []v1.Container{{},
			{Resources: v1.ResourceRequirements{Requests: list(mine)}}}}, true},
		"limits": {v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Limits: list(mine)}}}}, true},
		"init container": {v1.PodSpec{InitContainers: []v1.Container{
			{Resources: v1.ResourceRequirements{Requests: list(mine)}}}}, true},
	} {
		pod := snapshot.NewPod(&v1.Pod{Spec: c.spec})
		own := newOf(t, configv1.Extender{ManagedResources: []configv1.ExtenderManagedResource{{Name: mine}}})
		if got := own.Interested(pod); got != c.managed {
			t.Errorf("%s: %t, want %t", name, got, c.managed)
		}
		if all := newOf(t, configv1.Extender{}); !all.Interested(pod) {
			t.Errorf("%s: one that manages nothing is not interested", name)
		}
	}
}

func nodesOf(count int) (nodes []*snapshot.Node) {
	s := snapshot.New()
	for i := range count {
		s.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}})
	}
	return s.Nodes()
}

// TestRefusals: each node that was asked about is either kept or refused, whatever the answer says of it besides; a
// reason that nothing can help against wins over the other.
func TestRefusals(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		nodes, cached := nodesOf(6), seed%2 == 0
		e := newOf(t, configv1.Extender{URLPrefix: "http://extender", NodeCacheCapable: cached})
		answer := &extenderv1.ExtenderFilterResult{FailedNodes: extenderv1.FailedNodesMap{},
			FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{}}
		var kept []string
		answer.Nodes = &v1.NodeList{}
		for _, n := range nodes {
			if r.IntN(2) == 0 {
				kept = append(kept, n.Name)
			}
			if r.IntN(2) == 0 {
				answer.FailedNodes[n.Name] = "full"
			}
			if r.IntN(2) == 0 {
				answer.FailedAndUnresolvableNodes[n.Name] = "wrong"
			}
		}
		if cached {
			answer.NodeNames, answer.Nodes = &kept, nil
		} else {
			for _, name := range kept {
				answer.Nodes.Items = append(answer.Nodes.Items, v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
		}
		refusals, err := e.refusals(nodes, answer)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			refusal, refused := refusals[n.Name]
			if refused == slices.Contains(kept, n.Name) {
				t.Fatalf("seed %d: %s is refused: %t; kept are %v", seed, n.Name, refused, kept)
			}
			wrong, full := answer.FailedAndUnresolvableNodes[n.Name], answer.FailedNodes[n.Name]
			var want []string
			if wrong != "" {
				want = []string{wrong}
			} else if full != "" {
				want = []string{full}
			}
			if refused && (!slices.Equal(refusal.Reasons, want) || refusal.Unresolvable != (wrong != "")) {
				t.Fatalf("seed %d: %s is refused for %+v; it is %q and %q", seed, n.Name, refusal, full, wrong)
			}
		}
	}
}

// TestUnknownNode: an answer about a node that was not asked about can't be trusted.
func TestUnknownNode(t *testing.T) {
	e := newOf(t, configv1.Extender{URLPrefix: "http://extender", NodeCacheCapable: true})
	_, err := e.refusals(nodesOf(1), &extenderv1.ExtenderFilterResult{NodeNames: &[]string{"n0", "n7"}})
	if err == nil || !strings.Contains(err.Error(), `"n7" which is not found`) {
		t.Errorf("got %v", err)
	}
}

// TestScores are weighted, and brought from the extender's range to that of the plug-ins.
func TestScores(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ext/prioritize" {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(extenderv1.HostPriorityList{{Host: "n0", Score: extenderv1.MaxExtenderPriority},
			{Host: "n1", Score: 3}})
	}))
	defer server.Close()
	var running, most float64
	all, err := NewAll([]configv1.Extender{{URLPrefix: server.URL + "/ext/", PrioritizeVerb: "prioritize", Weight: 2}},
		func(change float64) { running += change; most = max(most, running) })
	if err != nil {
		t.Fatal(err)
	}
	got, err := all[0].Prioritize(snapshot.NewPod(&v1.Pod{}), nodesOf(2))
	if want := map[string]int64{"n0": 2 * cycle.MaxScore, "n1": 2 * 30}; err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if running != 0 || most != 1 {
		t.Errorf("running: %v, at most %v", running, most)
	}
	all[0].config.PrioritizeVerb = ""
	if got, err := all[0].Prioritize(snapshot.NewPod(&v1.Pod{}), nodesOf(2)); got != nil || err != nil {
		t.Errorf("without the verb: %v, %v", got, err)
	}
}

// TestAgreed: what an extender agrees to evict is found in the snapshot, or its answer is an error.
func TestAgreed(t *testing.T) {
	s := snapshot.New()
	s.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}})
	s.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	for i, node := range []string{"n0", "n0", "n1"} {
		s.SetPod(snapshot.NewPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i),
			UID: types.UID(fmt.Sprint("u", i))}, Spec: v1.PodSpec{NodeName: node}}))
	}
	e := newOf(t, configv1.Extender{URLPrefix: "http://extender"})
	for name, c := range map[string]struct {
		node string
		uids []string
		want string
	}{
		"both":             {"n0", []string{"u1", "u0"}, ""},
		"none":             {"n1", nil, ""},
		"unknown node":     {"n2", nil, "unknown node: n2"},
		"unknown pod":      {"n0", []string{"u7"}, "pod (UID: u7) on node: n0"},
		"another's victim": {"n0", []string{"u2"}, "pod (UID: u2) on node: n0"},
	} {
		meta := &extenderv1.MetaVictims{NumPDBViolations: 1}
		for _, uid := range c.uids {
			meta.Pods = append(meta.Pods, &extenderv1.MetaPod{UID: uid})
		}
		got, err := e.agreed(s, &extenderv1.ExtenderPreemptionResult{
			NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{c.node: meta}})
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", name, err, c.want)
			}
			continue
		}
		var uids []string
		for _, p := range got[c.node].Pods {
			uids = append(uids, string(p.UID()))
		}
		if err != nil || len(got) != 1 || !slices.Equal(uids, c.uids) || got[c.node].Violations != 1 {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

// TestTimeout: an extender has upstream's five seconds unless its configuration says else.
func TestTimeout(t *testing.T) {
	if got := newOf(t, configv1.Extender{}).client.Timeout; got != 5*time.Second {
		t.Errorf("by default: %v", got)
	}
	own := newOf(t, configv1.Extender{HTTPTimeout: metav1.Duration{Duration: time.Minute}})
	if own.client.Timeout != time.Minute {
		t.Errorf("with a minute: %v", own.client.Timeout)
	}
}
