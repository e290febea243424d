package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// The plug-ins below are written as the documentation of the scheduling framework has it, and know nothing of this
// scheduler.

// cheapest is a Score plug-in: the lower a node's label "price", the better.
type cheapest struct{ handle fwk.Handle }

func newCheapest(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return &cheapest{handle: h}, nil
}

func (*cheapest) Name() string { return "Cheapest" }

func (*cheapest) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, n fwk.NodeInfo) (int64, *fwk.Status) {
	var price int64
	if _, err := fmt.Sscan(n.Node().Labels["price"], &price); err != nil {
		return 0, nil
	}
	return price, nil
}

func (c *cheapest) ScoreExtensions() fwk.ScoreExtensions { return c }

func (*cheapest) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	highest := slices.MaxFunc(scores, func(a, b fwk.NodeScore) int { return int(a.Score - b.Score) }).Score
	for i := range scores {
		scores[i].Score = fwk.MaxScore - scores[i].Score*fwk.MaxScore/max(highest, 1)
	}
	return nil
}

// licensed is a Filter plug-in with a PreFilter: pods with the label "license" fit nodes where it is free.
type licensed struct{}

type license string

func (l license) Clone() fwk.StateData { return l }

func newLicensed(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return licensed{}, nil
}

func (licensed) Name() string { return "Licensed" }

func (licensed) PreFilter(_ context.Context, state fwk.CycleState, p *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult,
	*fwk.Status) {
	if p.Labels["license"] == "" {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write("license", license(p.Labels["license"]))
	return nil, nil
}

func (licensed) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (licensed) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, n fwk.NodeInfo) *fwk.Status {
	wanted, err := state.Read("license")
	if err != nil {
		return fwk.AsStatus(err)
	}
	for _, p := range n.GetPods() {
		if p.GetPod().Labels["license"] == string(wanted.(license)) {
			return fwk.NewStatus(fwk.Unschedulable, "node(s) had no free license")
		}
	}
	return nil
}

func (licensed) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete},
			QueueingHintFn: func(_ klog.Logger, p *v1.Pod, old, _ any) (fwk.QueueingHint, error) {
				if gone, ok := old.(*v1.Pod); ok && gone.Labels["license"] == p.Labels["license"] {
					return fwk.Queue, nil
				}
				return fwk.QueueSkip, nil
			}},
	}, nil
}

// gangs is a Permit plug-in of coscheduling's kind: pods with the label "gang" are bound once as many have nodes as the
// label "size" says.
type gangs struct {
	handle     fwk.Handle
	unreserved atomic.Int32
	bound      atomic.Int32
	timeout    time.Duration
}

func (*gangs) Name() string { return "Gangs" }

func (g *gangs) Permit(_ context.Context, _ fwk.CycleState, p *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	gang, size := p.Labels["gang"], 0
	if gang == "" {
		return nil, 0
	}
	if _, err := fmt.Sscan(p.Labels["size"], &size); err != nil {
		return fwk.NewStatus(fwk.Unschedulable, "a gang has a size"), 0
	}
	nodes, err := g.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fwk.AsStatus(err), 0
	}
	placed := 1
	for _, n := range nodes {
		for _, other := range n.GetPods() {
			if other.GetPod().Labels["gang"] == gang {
				placed++
			}
		}
	}
	if placed < size {
		return fwk.NewStatus(fwk.Wait), g.timeout
	}
	g.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if w.GetPod().Labels["gang"] == gang {
			w.Allow(g.Name())
		}
	})
	return nil, 0
}

func (*gangs) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

func (g *gangs) Unreserve(_ context.Context, _ fwk.CycleState, p *v1.Pod, _ string) {
	g.unreserved.Add(1)
	g.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if w.GetPod().Labels["gang"] == p.Labels["gang"] {
			w.Reject(g.Name(), "the gang is broken")
		}
	})
}

func (g *gangs) PostBind(_ context.Context, _ fwk.CycleState, p *v1.Pod, node string) {
	if p.Spec.NodeName == node {
		g.bound.Add(1)
	}
}

func withLabels(p *v1.Pod, set map[string]string) *v1.Pod {
	p.Labels = set
	return p
}

// startWith starts a scheduler with plug-ins of users.
func startWith(t *testing.T, plugins map[string]PluginFactory, objects ...runtime.Object) *cluster {
	t.Helper()
	var c Config
	for name, factory := range plugins {
		c.Apply(WithPlugin(name, factory))
	}
	return start(t, c, objects...)
}

func TestScorePlugin(t *testing.T) {
	dear, cheap := newNode("a", "4"), newNode("b", "4")
	dear.Labels["price"], cheap.Labels["price"] = "9", "1"
	c := startWith(t, map[string]PluginFactory{"Cheapest": newCheapest}, dear, cheap)
	for i := range 3 {
		name := fmt.Sprint("p", i)
		p := newPod(name, "1m")
		c.createPod(p)
		c.bound(name, "b")
	}
}

func TestFilterPlugin(t *testing.T) {
	first := withLabels(newPod("first", "1"), map[string]string{"license": "x"})
	first.Spec.NodeName = "a"
	c := startWith(t, map[string]PluginFactory{"Licensed": newLicensed}, newNode("a", "4"), first)
	c.createPod(newPod("free", "1"))
	c.bound("free", "a")
	c.createPod(withLabels(newPod("second", "1"), map[string]string{"license": "x"}))
	c.refused("second", "0/1 nodes are available: 1 node(s) had no free license.")
	if err := c.client.CoreV1().Pods("default").Delete(t.Context(), "free", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.client.CoreV1().Pods("default").Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.bound("second", "a")
}

func gangOf(size string) map[string]string { return map[string]string{"gang": "g", "size": size} }

func TestPermitPlugin(t *testing.T) {
	var plugin *gangs
	c := startWith(t, map[string]PluginFactory{"Gangs": func(_ context.Context, _ runtime.Object,
		h fwk.Handle) (fwk.Plugin,
		error) {
		plugin = &gangs{handle: h, timeout: time.Minute}
		return plugin, nil
	}}, newNode("a", "2"), newNode("b", "2"))
	c.createPod(withLabels(newPod("one", "1"), gangOf("3")))
	c.createPod(withLabels(newPod("two", "1"), gangOf("3")))
	c.createPod(newPod("alone", "1"))
	c.await("alone", "bound", func(p *v1.Pod) bool { return p.Spec.NodeName != "" })
	waiting := c.await("one", "expected on a node", func(p *v1.Pod) bool { return p.Status.NominatedNodeName != "" })
	if waiting.Spec.NodeName != "" {
		t.Errorf("a pod of an incomplete gang is bound to %s", waiting.Spec.NodeName)
	}
	c.createPod(withLabels(newPod("three", "1"), gangOf("3")))
	for _, name := range []string{"one", "two", "three"} {
		c.await(name, "bound", func(p *v1.Pod) bool { return p.Spec.NodeName != "" })
	}
	for deadline := time.Now().Add(time.Minute); plugin.bound.Load() < 4 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if n := plugin.bound.Load(); n != 4 {
		t.Errorf("PostBind was told of %d pods", n)
	}
}

// TestPermitTimesOut: what a gang that doesn't get complete holds is free again.
func TestPermitTimesOut(t *testing.T) {
	var plugin *gangs
	c := startWith(t, map[string]PluginFactory{"Gangs": func(_ context.Context, _ runtime.Object,
		h fwk.Handle) (fwk.Plugin,
		error) {
		plugin = &gangs{handle: h, timeout: 20 * time.Millisecond}
		return plugin, nil
	}}, newNode("a", "1"))
	c.createPod(withLabels(newPod("one", "1"), gangOf("2")))
	c.refused("one", "0/1 nodes are available: 1 rejected due to timeout after waiting 20ms at plugin Gangs.")
	if plugin.unreserved.Load() == 0 {
		t.Error("Unreserve was not called")
	}
	if err := c.client.CoreV1().Pods("default").Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.createPod(newPod("other", "1"))
	c.bound("other", "a")
}

func TestPermitDenies(t *testing.T) {
	c := startWith(t, map[string]PluginFactory{"Gangs": func(_ context.Context, _ runtime.Object,
		h fwk.Handle) (fwk.Plugin,
		error) {
		return &gangs{handle: h}, nil
	}}, newNode("a", "1"), withLabels(newPod("p", "1"), map[string]string{"gang": "g"}))
	c.refused("p", "0/1 nodes are available: 1 a gang has a size.")
}

// everything is a PreEnqueue plug-in that asks an informer, a QueueSort and a PreBind plug-in.
type everything struct {
	handle  fwk.Handle
	binding chan string
}

func (*everything) Name() string { return "Everything" }

func (e *everything) PreEnqueue(_ context.Context, p *v1.Pod) *fwk.Status {
	list, err := e.handle.SharedInformerFactory().Core().V1().PersistentVolumes().Lister().List(labels.Everything())
	if err != nil || p.Labels["open"] == "" && len(list) == 0 {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no volume yet")
	}
	return nil
}

func (*everything) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.PersistentVolume, ActionType: fwk.Add}}}, nil
}

// Less tries pods by their names, backwards.
func (*everything) Less(a, b fwk.QueuedPodInfo) bool {
	return a.GetPodInfo().GetPod().Name > b.GetPodInfo().GetPod().Name
}

func (*everything) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult,
	*fwk.Status) {
	return nil, nil
}

func (e *everything) PreBind(_ context.Context, _ fwk.CycleState, p *v1.Pod, _ string) *fwk.Status {
	if p.Labels["fail"] != "" {
		return fwk.AsStatus(context.DeadlineExceeded)
	}
	e.binding <- p.Name
	return nil
}

func TestQueuePlugin(t *testing.T) {
	plugin := &everything{binding: make(chan string, 10)}
	config, err := loadedWith(t, header+`
profiles:
- plugins:
    multiPoint: {enabled: [{name: Everything}], disabled: [{name: PrioritySort}]}
  pluginConfig: [{name: Everything, args: {size: 3}}]
`, nil, func(c *Config) {
		WithPlugin("Everything", func(_ context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			if raw := string(args.(*runtime.Unknown).Raw); !strings.Contains(raw, `"size":3`) {
				return nil, fmt.Errorf("arguments %s", raw)
			}
			plugin.handle = h
			return plugin, nil
		})(c)
	})
	if err != nil {
		t.Fatal(err)
	}
	config.handles, config.File, config.SecurePort, config.Leader.Elect = nil, "", 0, false
	c := start(t, *config, newNode("a", "8"), newPod("x", "1"), newPod("z", "1"), newPod("y", "1"))
	failing := withLabels(newPod("failing", "1"), map[string]string{"open": "1", "fail": "1"})
	c.createPod(failing)
	c.await("failing", "refused", func(p *v1.Pod) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
			return c.Reason == v1.PodReasonSchedulerError &&
				c.Message == `running PreBind plugin "Everything": context deadline exceeded`
		})
	})
	if err := c.client.CoreV1().Pods("default").Delete(t.Context(), "failing", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(plugin.binding) > 0 {
		t.Fatalf("pod %s passed PreEnqueue", <-plugin.binding)
	}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	if _, err := c.client.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x", "y", "z"} {
		c.bound(name, "a")
	}
}
