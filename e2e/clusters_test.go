package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/cluster"
)

func TestTwoClustersAtOnce(t *testing.T) {
	var worlds [2]*world
	var wg sync.WaitGroup
	for i := range worlds {
		wg.Go(func() { worlds[i] = start(t, cluster.WithNodes(1)) })
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	worlds[0].createPod("only-in-the-first")
	worlds[0].waitReady("only-in-the-first", 1)
	list, err := worlds[1].client.CoreV1().Pods(space).List(t.Context(), metav1.ListOptions{})
	worlds[1].must(err, "list pods of the second cluster")
	worlds[1].Expect(list.Items).To(BeEmpty())
	worlds[1].createPod("only-in-the-second")
	worlds[1].waitReady("only-in-the-second", 1)
}

// TestHelperCrash is not a test of its own: TestNothingIsLeftAfterACrash runs it as a process and kills that.
func TestHelperCrash(t *testing.T) {
	name := os.Getenv("QUINTET_E2E_CRASH")
	if name == "" {
		t.Skip("run by TestNothingIsLeftAfterACrash")
	}
	if _, err := cluster.Start(t.Context(), cluster.WithName(name), cluster.WithNodes(1)); err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString("STARTED\n")
	select {} // until killed
}

func TestNothingIsLeftAfterACrash(t *testing.T) {
	g := NewWithT(t)
	name := fmt.Sprintf("e2e-crash-%d", os.Getpid()) // what one run leaves is not in the way of the next
	crash := exec.Command(os.Args[0], "-test.run=^TestHelperCrash$", "-test.timeout=5m")
	crash.Env = append(os.Environ(), "QUINTET_E2E_CRASH="+name)
	out := &strings.Builder{}
	stdout := &notifier{to: out, text: "STARTED", seen: make(chan struct{})}
	crash.Stdout, crash.Stderr = stdout, stdout
	if err := crash.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- crash.Wait() }()
	select {
	case <-stdout.seen:
	case err := <-exited:
		t.Fatalf("the cluster did not start: %v\n%s", err, out)
	case <-time.After(3 * time.Minute):
		_ = crash.Process.Kill()
		t.Fatal("the cluster did not start in time")
	}
	if err := crash.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-exited
	left := func() string {
		return docker(t, "ps", "--all", "--quiet", "--filter", "label=io.quintet.cluster="+name) +
			docker(t, "network", "ls", "--quiet", "--filter", "label=io.quintet.cluster="+name)
	}
	g.Expect(left()).NotTo(BeEmpty(), "a killed process can't clean up")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g.Expect(cluster.Remove(ctx, name)).To(Succeed())
	g.Expect(left()).To(BeEmpty())
}

// notifier closes seen when text was written.
type notifier struct {
	mu   sync.Mutex
	to   *strings.Builder
	text string
	seen chan struct{}
	done bool
}

func (n *notifier) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.to.Write(p)
	if !n.done && strings.Contains(n.to.String(), n.text) {
		n.done = true
		close(n.seen)
	}
	return len(p), nil
}
