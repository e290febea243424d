package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/pprof/profile"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// deploying measures what a controller manager takes to have the pods of one Deployment ready on hollow nodes, and gone
// with their namespace. The rest of the cluster is a process of its own, whose share is told, too: it bounds how fast
// any manager can be.
func deploying(ctx context.Context, o Options) ([]Measure, error) {
	ctx, cancel := context.WithTimeout(ctx, scaleTimeout)
	defer cancel()
	c, err := startHollow(ctx, o, "memory", max(1, o.Pods/o.PodsPerNode), "--without="+controllersProgram)
	if err != nil {
		return nil, err
	}
	defer c.close()
	m := &managedCluster{hollowCluster: c}
	if err := m.startControllers(o); err != nil {
		return nil, err
	}
	defer m.manager.close()
	if err := c.makeSpace(ctx); err != nil {
		return nil, err
	}
	if err := m.admits(ctx); err != nil {
		return nil, err
	}
	keep := m.profiles(ctx, o)
	filling, err := m.measure(ctx, o.Pods, "ready", func() error { return c.deploy(ctx, o.Pods, o.Pods) })
	if err := errors.Join(err, keep(), c.keep(m.profile, o.Profiles, "controllers")); err != nil {
		return nil, err
	}
	emptying, err := m.measure(ctx, o.Pods, "gone", func() error { return c.empty(ctx) })
	if err != nil {
		return nil, err
	}
	peak, err := peakResident(m.manager.pid())
	all := append([]Measure{{Name: nodesMeasure, Value: float64(c.nodes), Unit: "nodes"}}, filling...)
	all = append(all, emptying...)
	return append(all, Measure{Name: "manager peak resident", Value: peak, Unit: "MiB", Aim: "≤ 1/3 of upstream's"}), err
}

// managedCluster is a cluster whose controllers are a process of their own.
type managedCluster struct {
	*hollowCluster
	manager *process
	port    int
	profile *profile.Profile // of the cluster, while it was measured last
}

// startControllers starts the manager under measurement, which its client does not throttle.
func (m *managedCluster) startControllers(o Options) error {
	ca := filepath.Join(m.dir, "ca.crt")
	if err := os.WriteFile(ca, m.config.CAData, 0o600); err != nil {
		return err
	}
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	m.port = ports[0]
	m.manager, err = start(o.program(controllersProgram), "--kubeconfig="+m.kubeconfig, "--leader-elect=false",
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", m.port), "--authentication-kubeconfig="+m.kubeconfig,
		"--authorization-kubeconfig="+m.kubeconfig, "--root-ca-file="+ca, "--kube-api-qps=20000", "--kube-api-burst=20000",
		"--kube-api-content-type=application/vnd.kubernetes.protobuf")
	return err
}

// profiles takes profiles of the manager until the returned function is called, if they are wanted.
func (m *managedCluster) profiles(ctx context.Context, o Options) (end func() error) {
	if o.Profiles == "" {
		return func() error { return nil }
	}
	config := rest.CopyConfig(m.config)
	config.Host = fmt.Sprintf("https://127.0.0.1:%d", m.port)
	config.Insecure, config.CAData = true, nil // it has made its certificate itself
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return func() error { return err }
	}
	return keepProfiles(ctx, client.RESTClient(), o.Profiles, filepath.Base(o.program(controllersProgram)))
}

// admits waits until pods can be made, which takes a service account.
func (m *managedCluster) admits(ctx context.Context) error {
	return m.manager.poll(ctx, func() bool {
		_, err := m.client.CoreV1().ServiceAccounts(filledSpace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
}

// measure tells what each of the pods takes until they are as the name says.
func (m *managedCluster) measure(ctx context.Context, pods int, as string, work func() error) ([]Measure, error) {
	used, err := m.settled(ctx) // from what came before, as its start
	if err != nil {
		return nil, err
	}
	before, after, profile, err := m.profiled(ctx, profileLength, work)
	if err != nil {
		return nil, err
	}
	now, err := m.settled(ctx)
	if err != nil {
		return nil, err
	}
	m.profile = profile
	n := float64(pods)
	rest := milliseconds(after.cpu-before.cpu) / n
	return append([]Measure{
		{Name: "pods " + as, Value: n / after.at.Sub(before.at).Seconds(), Unit: frequency},
		{Name: "manager CPU, each pod " + as, Value: milliseconds(now-used) / n, Unit: "ms", Aim: "≤ 1/5 of upstream's"},
		{Name: "CPU of the rest, each pod " + as, Value: rest, Unit: "ms"},
	}, byComponent("CPU of the rest, each pod "+as, rest, profile)...), nil
}

// settled waits until the manager has done what is left to do, and returns its processor time.
func (m *managedCluster) settled(ctx context.Context) (time.Duration, error) {
	const still = 50 * time.Millisecond // each second
	var used time.Duration
	for {
		now, err := cpu(m.manager.pid())
		if err != nil || now-used <= still {
			return now, err
		}
		used = now
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}
