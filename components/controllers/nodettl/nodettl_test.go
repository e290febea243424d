package nodettl

import (
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNext(t *testing.T) {
	current := 0
	for _, c := range []struct{ nodes, seconds int }{
		{0, 0}, {100, 0}, {101, 15}, {95, 15}, {89, 0}, {1500, 60}, {899, 30}, {5000, 300}, {1800, 300},
		{1799, 60}, {1, 0},
	} {
		current = next(current, c.nodes)
		if got := steps[current].seconds; got != c.seconds {
			t.Errorf("%d nodes: %d s, want %d", c.nodes, got, c.seconds)
		}
	}
}

func TestAnnotates(t *testing.T) {
	stale := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "stale",
		Annotations: map[string]string{v1.ObjectTTLAnnotationKey: "15", "other": "x"}}}
	client := runnertest.NewClient(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, stale)
	runnertest.Start(t, client, clock.RealClock{}, func(env runner.Env) (runner.Controller, error) { return New(env) })
	for _, name := range []string{"new", "stale"} {
		runnertest.Eventually(t, func() (bool, string) {
			node, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && node.Annotations[v1.ObjectTTLAnnotationKey] == "0" &&
				(name == "new" || node.Annotations["other"] == "x"), name
		})
	}
}

// TestCounts: the size of the cluster is what came less what went.
func TestCounts(t *testing.T) {
	node, c := &v1.Node{}, &Controller{}
	for range 101 {
		c.counted(nil, node)
	}
	c.counted(node, node)
	if got := c.seconds(); got != 15 {
		t.Errorf("101 nodes: %d s, want 15", got)
	}
	for range 12 {
		c.counted(node, nil)
	}
	if got := c.seconds(); got != 0 {
		t.Errorf("89 nodes: %d s, want 0", got)
	}
}
