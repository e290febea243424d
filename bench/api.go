package bench

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	protobuf  = "application/vnd.kubernetes.protobuf"
	namespace = "bench"
)

// resting is how long a server is left alone before its memory is measured.
const resting = 10 * time.Second

// memoryServer measures the start of an API server that keeps everything in memory.
func memoryServer(ctx context.Context, o Options) ([]Measure, error) {
	r, err := newRig(ctx, o, false)
	if err != nil {
		return nil, err
	}
	defer r.close()
	return idle(ctx, r.servers[0], "≤ 30 ms")
}

// idle measures what a server takes before the first request.
func idle(ctx context.Context, s *apiServer, aim string) ([]Measure, error) {
	rss, err := resident(s.pid())
	if err != nil {
		return nil, err
	}
	if err := wait(ctx, resting); err != nil {
		return nil, err
	}
	rested, err := resident(s.pid())
	return []Measure{
		{Name: fmt.Sprintf("start to /readyz, best of %d", starts), Value: milliseconds(s.ready), Unit: "ms", Aim: aim},
		{Name: "server CPU of the start", Value: milliseconds(s.startCPU), Unit: "ms"},
		{Name: "resident, just started", Value: rss, Unit: "MiB"},
		{Name: "resident, idle", Value: rested, Unit: "MiB", Aim: "≤ 60 MiB"},
	}, err
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// api measures reads, writes and watches of an API server on etcd, against etcd itself.
func api(ctx context.Context, o Options) ([]Measure, error) {
	r, err := newRig(ctx, o, true)
	if err != nil {
		return nil, err
	}
	defer r.close()
	s := r.servers[0]
	out, err := idle(ctx, s, "≤ 150 ms")
	if err != nil {
		return nil, err
	}
	clients, err := r.clients(s, o.Clients)
	if err != nil {
		return nil, err
	}
	if err := prepare(ctx, clients[0], namespace); err != nil {
		return nil, err
	}
	if err := r.measureRaw(ctx, o); err != nil {
		return nil, fmt.Errorf("raw etcd: %w", err)
	}
	for _, part := range []func(context.Context, Options, *rig, []*kubernetes.Clientset) ([]Measure, error){loaded, reads,
		writes, fanOut} {
		measures, err := part(ctx, o, r, clients)
		if err != nil {
			return nil, err
		}
		out = append(out, measures...)
	}
	return out, nil
}

func prepare(ctx context.Context, client *kubernetes.Clientset, name string) error {
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().ServiceAccounts(name).Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	return err
}

// loaded creates the pods that lists return, and measures what they take.
func loaded(ctx context.Context, o Options, r *rig, clients []*kubernetes.Clientset) ([]Measure, error) {
	err := each(ctx, o.Clients, o.Pods, func(ctx context.Context, worker, i int) error {
		_, err := clients[worker].CoreV1().Pods(namespace).Create(ctx, pod(fmt.Sprintf("list-%06d", i)),
			metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	pid := r.servers[0].pid()
	full, err := resident(pid)
	if err != nil {
		return nil, err
	}
	if err := wait(ctx, resting); err != nil {
		return nil, err
	}
	rested, err := resident(pid)
	return []Measure{
		{Name: fmt.Sprintf("resident, %d pods just created", o.Pods), Value: full, Unit: "MiB", Aim: "≤ 150 MiB"},
		{Name: fmt.Sprintf("resident, %d pods, at rest", o.Pods), Value: rested, Unit: "MiB"},
	}, err
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "bench", "tier": "load"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "registry.invalid/bench:1", Args: []string{"serve", "--port=8080"},
			Env: []corev1.EnvVar{{Name: "MODE", Value: "bench"}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")}},
		}}},
	}
}
