package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/cluster"
)

// TestDisturbedParts: packets between parts come late, are lost and cut off, a disk is full and a clock wrong; each is
// seen, no acknowledged write is lost, and all is well when it is healed.
func TestDisturbedParts(t *testing.T) {
	w := start(t, cluster.WithNodes(1), cluster.WithDiskSize(192<<20),
		cluster.WithProgram(cluster.ControllerManager, func(ctx context.Context, env cluster.Env) error {
			return env.Original(ctx, env)
		}))
	etcd, server := w.Member("etcd-0"), w.Member("apiserver-0")
	request := func(wait time.Duration) (time.Duration, error) {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		began := time.Now()
		_, err := w.client.CoreV1().ConfigMaps(space).Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "asked-"}}, metav1.CreateOptions{})
		return time.Since(began), err
	}
	works := func() {
		t.Helper()
		w.Eventually(func() error { _, err := request(5 * time.Second); return err }).Should(Succeed(),
			"a write after a fault")
	}
	heal := func(heal cluster.Heal, err error) func() {
		t.Helper()
		w.must(err, "begin a fault")
		return func() { t.Helper(); w.must(heal(t.Context()), "heal") }
	}
	w.underLoad(func() {
		undo := heal(w.Delay(t.Context(), etcd, 100*time.Millisecond, 20*time.Millisecond))
		took, err := request(waitTimeout)
		w.must(err, "a write that comes late")
		w.Expect(took).To(BeNumerically(">=", 80*time.Millisecond))
		undo()

		undo = heal(w.Lose(t.Context(), server, 0.1))
		works() // though some requests may fail
		undo()

		undo = heal(w.Cut(t.Context(), server, etcd))
		_, err = request(time.Second)
		w.Expect(err).To(HaveOccurred(), "a write without etcd")
		undo()
		works()
	})
	undo := heal(w.FillDisk(t.Context(), etcd, 0))
	big := strings.Repeat("x", 1<<19)
	w.Eventually(func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := w.client.CoreV1().ConfigMaps(space).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "big-"}, Data: map[string]string{"x": big}}, metav1.CreateOptions{})
		return err
	}).ShouldNot(Succeed(), "writes on a full disk")
	undo()
	w.must(etcd.Start(t.Context()), "start etcd, which ends where it can't write")
	works()

	undo = heal(w.ShiftClock(t.Context(), w.Component(cluster.ControllerManager).Members[0], 24*time.Hour))
	undo()
	_, err := w.ShiftClock(t.Context(), etcd, time.Hour)
	w.Expect(err).To(MatchError(cluster.ErrUnsupported))

	undo = heal(w.ShiftClock(t.Context(), server, 20*365*24*time.Hour))
	_, err = request(waitTimeout)
	w.Expect(apierrors.IsUnauthorized(err)).To(BeTrue(), "a write with a certificate that ended: %v", err)
	undo()
	works()

	renewed := func() time.Duration {
		lease, err := w.client.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), "node-1", metav1.GetOptions{})
		w.must(err, "get the node's Lease")
		return time.Until(lease.Spec.RenewTime.Time)
	}
	undo = heal(w.ShiftClock(t.Context(), w.Node(1), 5*time.Hour))
	w.Eventually(renewed).Should(BeNumerically(">", 4*time.Hour), "the kubelet renews in its time")
	undo()
	w.Eventually(renewed).Should(BeNumerically("<", time.Minute), "and in real time after that")
	_, err = w.FillDisk(t.Context(), w.Node(1), 0)
	w.Expect(err).To(MatchError(cluster.ErrUnsupported))
	w.Expect(w.List(t)).NotTo(ContainElement(ContainSubstring("fault")), "injectors that are left")
}

// List is the names of the cluster's containers.
func (w *world) List(t *testing.T) []string {
	t.Helper()
	infos, err := cluster.List(t.Context(), w.Name())
	w.must(err, "list containers")
	var names []string
	for _, info := range infos {
		names = append(names, info.Member)
	}
	return names
}
