package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/checks"
	"quintet.dev/quintet/cluster"
)

// writer creates config maps without a pause; what was acknowledged is remembered.
type writer struct {
	checks.Acknowledged
	wg sync.WaitGroup
}

// write continues until ctx ends; failing requests are an expected effect of the fault.
func (w *world) write(ctx context.Context, workers int) *writer {
	out := &writer{}
	config := w.RESTConfig()
	config.QPS = -1
	client, err := kubernetes.NewForConfig(out.Record(config))
	w.must(err, "make a client")
	for worker := range workers {
		out.wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				short, cancel := context.WithTimeout(ctx, 2*time.Second)
				_, _ = client.CoreV1().ConfigMaps(space).Create(short, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprintf("written-%d-%d", worker, i)}}, metav1.CreateOptions{})
				cancel()
			}
		})
	}
	return out
}

// underLoad runs a fault while writers write, lets them go on for a while after it, and checks that nothing is lost.
func (w *world) underLoad(fault func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	load := w.write(ctx, 8)
	w.Eventually(load.Len).Should(BeNumerically(">", 100), "writes before the fault")
	fault()
	before := load.Len()
	w.Eventually(load.Len).Should(BeNumerically(">", before+100), "writes after the fault")
	cancel()
	load.wg.Wait()
	lost, err := load.Lost(w.t.Context(), w.RESTConfig())
	w.must(err, "list what was written")
	w.Expect(lost).To(BeEmpty(), "acknowledged writes that are gone, of %d", load.Len())
}

func TestKilledAPIServerLosesNothing(t *testing.T) {
	w := start(t, cluster.WithNodes(1))
	w.createDeployment("steady", 2)
	before := w.waitReady("steady", 2)
	w.underLoad(func() {
		w.must(w.Component(cluster.APIServer).Kill(t.Context()), "kill the API server")
		w.must(w.Component(cluster.APIServer).Start(t.Context()), "start it again")
		w.must(w.WaitAPI(t.Context()), "wait for it")
	})

	// Everything else keeps working: the same pods run without restarts, and new pods start.
	after := w.waitReady("steady", 2)
	for _, p := range after {
		w.Expect(p.Status.ContainerStatuses[0].RestartCount).To(BeZero())
	}
	w.Expect([]string{after[0].Name, after[1].Name}).To(ConsistOf(before[0].Name, before[1].Name))
	w.createDeployment("later", 2)
	w.waitReady("later", 2)

	// And the new server finds its way to the pods, as it must for webhooks.
	w.Eventually(func() error {
		_, err := w.client.CoreV1().RESTClient().Get().Namespace(space).Resource("pods").Name(after[0].Name +
			":8080").SubResource("proxy").DoRaw(t.Context())
		return err
	}).Should(Succeed(), "a request to a pod through the API server")
}

func TestRestartedEtcdLosesNothing(t *testing.T) {
	w := start(t, cluster.WithNodes(1))
	w.underLoad(func() {
		w.must(w.Component(cluster.Etcd).Restart(t.Context()), "restart etcd")
		w.must(w.WaitAPI(t.Context()), "wait for the API server")
	})
	w.underLoad(func() {
		w.must(w.Component(cluster.Etcd).Kill(t.Context()), "kill etcd")
		w.must(w.Component(cluster.Etcd).Start(t.Context()), "start it again")
		w.must(w.WaitAPI(t.Context()), "wait for the API server")
	})
	w.createPod("later")
	w.waitReady("later", 1)
}

func TestWorkWaitsForItsPlayers(t *testing.T) {
	w := start(t, cluster.WithNodes(1))

	w.must(w.Component(cluster.Scheduler).Stop(t.Context()), "stop the scheduler")
	w.createPod("unscheduled")
	w.Consistently(w.pods("unscheduled")).WithTimeout(2*time.Second).Should(HaveEach(HaveField("Spec.NodeName",
		BeEmpty())), "no other component binds pods")
	w.must(w.Component(cluster.Scheduler).Start(t.Context()), "start the scheduler")
	w.waitReady("unscheduled", 1)

	w.must(w.Component(cluster.ControllerManager).Stop(t.Context()), "stop the controllers")
	w.createDeployment("unmanaged", 2)
	w.Consistently(w.pods("unmanaged")).WithTimeout(2*time.Second).Should(BeEmpty(), "no other component creates pods")
	w.must(w.Component(cluster.ControllerManager).Start(t.Context()), "start the controllers")
	w.waitReady("unmanaged", 2)
}

func TestPausedAPIServerIsSurvived(t *testing.T) {
	w := start(t, cluster.WithNodes(1))
	w.createDeployment("steady", 1)
	before := w.waitReady("steady", 1)
	w.must(w.Component(cluster.APIServer).Pause(t.Context()), "freeze the API server")
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	_, err := w.client.CoreV1().Namespaces().Get(short, space, metav1.GetOptions{})
	cancel()
	w.Expect(err).To(HaveOccurred(), "a frozen API server answers nothing")
	w.must(w.Component(cluster.APIServer).Unpause(t.Context()), "let it go on")
	w.createDeployment("later", 1)
	w.waitReady("later", 1)
	w.Expect(w.waitReady("steady", 1)[0].UID).To(Equal(before[0].UID))
}

func TestHighAvailability(t *testing.T) {
	w := start(t, cluster.WithNodes(1), cluster.WithAPIServers(2), cluster.WithEtcdMembers(3))
	w.must(w.Member("etcd-1").Kill(t.Context()), "kill one etcd member of three")
	w.must(w.Member("apiserver-1").Kill(t.Context()), "kill the second API server")
	// Where the killed member led, writes time out until another one leads.
	w.Eventually(func() error {
		_, err := w.client.CoreV1().ConfigMaps(space).Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "led-"}}, metav1.CreateOptions{})
		return err
	}).Should(Succeed(), "a write after the election")
	w.createDeployment("steady", 2)
	w.waitReady("steady", 2)
	err := w.client.CoreV1().Pods(space).Delete(t.Context(), "no-such-pod", metav1.DeleteOptions{})
	w.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "want NotFound, got %v", err)
}
