package pods

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// staticPod is a pod of a manifest; its name is the same whatever its UID.
func staticPod(uid types.UID) *v1.Pod {
	p := simplePod(uid)
	p.Name, p.ResourceVersion, p.Generation = "static", "", 0
	p.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	return p
}

// A static pod begins only after the one of its name is gone: they share what the manifest names on the node.
func TestStaticPodsOfANameTakeTurns(t *testing.T) {
	for name, changes := range map[string][]types.UID{
		"changed": {"b"}, "changed twice": {"b", "c"}, "changed back": {"b", "a"}, "gone and back": {"a"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { takeTurns(t, changes) })
		})
	}
}

func takeTurns(t *testing.T, changes []types.UID) {
	engine := newGate(t)
	m, stop := runManager(t, engine)
	defer stop()
	m.Set(staticPod("a"))
	time.Sleep(time.Second)
	first := runningUIDs(t, engine)
	engine.holdBack(func(_ types.UID, what string) bool { return what == "stop" })
	last := types.UID("a")
	for _, uid := range changes {
		m.Gone(staticPod(last))
		m.Set(staticPod(uid))
		last = uid
		time.Sleep(time.Second)
	}
	if during := runningUIDs(t, engine); len(first) != 1 || len(during) != 1 || during[0] != "a" {
		t.Errorf("%v run, and %v while the first ends", first, during)
	}
	engine.holdBack(func(types.UID, string) bool { return false })
	for c := engine.held(func(int) int { return 0 }); c != nil; c = engine.held(func(int) int { return 0 }) {
		c.done <- nil
	}
	time.Sleep(time.Minute)
	if after := runningUIDs(t, engine); len(after) != 1 || after[0] != last {
		t.Errorf("%v run, want %s", after, last)
	}
}

func runningUIDs(t *testing.T, engine runtime.Engine) []types.UID {
	t.Helper()
	pods, err := engine.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var uids []types.UID
	for _, pod := range pods {
		for _, c := range pod.Containers {
			if c.State == runtime.Running {
				uids = append(uids, pod.UID)
			}
		}
	}
	return uids
}

func TestStaticPodsStayOnATaintedNode(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1.NodeSpec{Taints: []v1.Taint{
		{Key: "k", Effect: v1.TaintEffectNoExecute}}}}
	if why := refuse(simplePod("p"), node, nil); why == nil || why.reason != "TaintToleration" {
		t.Errorf("an ordinary pod: %+v", why)
	}
	if why := refuse(staticPod("p"), node, nil); why != nil {
		t.Errorf("a static pod: %+v", why)
	}
}
