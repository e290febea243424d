package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestOthersTakeOver: when the leader ends, another scheduler and controller manager work.
func TestOthersTakeOver(t *testing.T) {
	quick := []string{"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s",
		"--leader-elect-retry-period=200ms"}
	c, client := started(t, WithSchedulers(2), WithControllerManagers(2), WithArgs(Scheduler, quick...),
		WithArgs(ControllerManager, quick...))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, lease := range []string{"kube-scheduler", "kube-controller-manager"} {
		err := until(ctx, func(ctx context.Context) error {
			_, err := client.CoordinationV1().Leases("kube-system").Get(ctx, lease, metav1.GetOptions{})
			return err
		})
		if err != nil {
			t.Fatalf("%s elects no leader: %v", lease, err)
		}
	}
	if err := c.Member("scheduler-0").Stop(ctx); err != nil {
		t.Fatal(err)
	}
	createPod(ctx, t, client, "first")
	phase(ctx, t, client, "first", corev1.PodRunning)
	if err := c.Member("scheduler-0").Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Member("scheduler-1").Stop(ctx); err != nil {
		t.Fatal(err)
	}
	createPod(ctx, t, client, "second")
	phase(ctx, t, client, "second", corev1.PodRunning)

	if err := c.Member("controller-manager-0").Stop(ctx); err != nil {
		t.Fatal(err)
	}
	makesAccount(ctx, t, client, "a")
	if err := c.Member("controller-manager-0").Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Member("controller-manager-1").Stop(ctx); err != nil {
		t.Fatal(err)
	}
	makesAccount(ctx, t, client, "b")
}

// makesAccount waits until a controller made the default service account of a new namespace.
func makesAccount(ctx context.Context, t *testing.T, client kubernetes.Interface, namespace string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err := until(ctx, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNumbersOfWhatIsLeftOut(t *testing.T) {
	for want, opts := range map[string][]Option{
		"2 schedulers: it is left out":          {WithSchedulers(2), Without(Scheduler)},
		"2 controller managers: it is left out": {WithControllerManagers(2), Without(ControllerManager)},
		"0 schedulers: at least 1":              {WithSchedulers(0)},
	} {
		c := newConfig("x")
		var err error
		for _, opt := range opts {
			err = errors.Join(err, opt(c))
		}
		if err == nil {
			err = c.check()
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
