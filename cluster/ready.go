package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Conditions are polled: a cluster that starts has no component to watch yet. The interval is short because a start
// consists of such waits; guardInterval is for rare events.
const (
	pollInterval  = 10 * time.Millisecond
	guardInterval = 250 * time.Millisecond
	tailLines     = 15
	tailTimeout   = 5 * time.Second
)

// final is an error after which waiting is of no use.
type final struct{ error }

// until polls ready until it returns nil, and reports its last error when ctx ends first.
func until(ctx context.Context, ready func(context.Context) error) error {
	var last error
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		if ended := (final{}); errors.As(err, &ended) {
			return ended.error
		}
		if ctx.Err() == nil || last == nil {
			last = err // after the end the error is only about the end
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return context.Cause(ctx)
			}
			return fmt.Errorf("not in time; last seen: %w", last)
		case <-time.After(pollInterval):
		}
	}
}

// guarded ends a wait early, with the last lines of its log, when a member ended that should run. A wait that fails
// otherwise comes with the last lines of what was waited for.
func (s *start) guarded(component Component, wait func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		guarded, cancel := context.WithCancelCause(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.cluster.guard(guarded, cancel)
		}()
		err := wait(guarded)
		ended := context.Cause(guarded)
		cancel(nil)
		<-done
		switch {
		case err == nil:
			return nil
		case ended != nil && ctx.Err() == nil:
			return ended
		default:
			return s.cluster.withTails(ctx, component, err)
		}
	}
}

// withTails adds the last lines of a component's members to err.
func (c *Cluster) withTails(ctx context.Context, component Component, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tailTimeout)
	defer cancel()
	for _, m := range c.Component(component).Members {
		err = fmt.Errorf("%w; the last lines of %s:\n%s", err, m.name, m.tail(ctx))
	}
	return err
}

func (c *Cluster) guard(ctx context.Context, fail context.CancelCauseFunc) {
	ticker := time.NewTicker(guardInterval)
	defer ticker.Stop()
	for {
		for _, m := range c.Members() {
			state, err := m.instance.State(ctx)
			if err == nil && !state.Running && ctx.Err() == nil {
				fail(fmt.Errorf("%s ended with code %d %s; its last lines:\n%s", m.name, state.ExitCode, state.Error,
					m.tail(ctx)))
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// tail is the end of a member's log.
func (m *Member) tail(ctx context.Context) string {
	var log bytes.Buffer
	if err := m.instance.Logs(ctx, false, &log); err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

func (s *start) apiReady(ctx context.Context) error { return s.cluster.WaitAPI(ctx) }

// WaitAPI returns when the API server says that it is ready, e.g. after a restart.
func (c *Cluster) WaitAPI(ctx context.Context) error {
	config := c.RESTConfig()
	config.Timeout = 5 * time.Second
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return until(ctx, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("GET /readyz: %s", response.Status)
		}
		return nil
	})
}

// controllersReady waits for what pods of the default namespace need.
func (s *start) controllersReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.cluster.rest)
	if err != nil {
		return err
	}
	return until(ctx, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func (s *start) nodesReady(ctx context.Context) error { return s.cluster.WaitNodes(ctx) }

// WaitNodes returns when every node is ready and pods can be scheduled on it.
func (c *Cluster) WaitNodes(ctx context.Context) error {
	want := 0
	for _, m := range c.Members() {
		if m.component == Node {
			want++
		}
	}
	if want == 0 {
		return nil
	}
	client, err := kubernetes.NewForConfig(c.protobufConfig())
	if err != nil {
		return err
	}
	return until(ctx, func(ctx context.Context) error {
		seen := &nodeReadiness{want: want, problems: map[string]error{},
			judge: func(n *corev1.Node) error { return errors.Join(c.moved(n), c.config.schedulable(n)) }}
		return seen.follow(ctx, client)
	})
}

// nodeReadiness is what is known of the nodes that are waited for.
type nodeReadiness struct {
	want     int
	judge    func(*corev1.Node) error
	problems map[string]error // of each node that there is; nil for those that are ready
	waiting  int              // nodes with a problem
}

func (r *nodeReadiness) set(node *corev1.Node) {
	r.remove(node.Name)
	problem := r.judge(node)
	if r.problems[node.Name] = problem; problem != nil {
		r.waiting++
	}
}

func (r *nodeReadiness) remove(name string) {
	if r.problems[name] != nil {
		r.waiting--
	}
	delete(r.problems, name)
}

// done tells that all nodes are there and none has a problem.
func (r *nodeReadiness) done() bool { return len(r.problems) >= r.want && r.waiting == 0 }

// err is nil when all nodes are there and none has a problem.
func (r *nodeReadiness) err() error {
	switch {
	case len(r.problems) < r.want:
		return fmt.Errorf("%d of %d nodes registered", len(r.problems), r.want)
	case r.waiting == 0:
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(r.problems)) {
		if err := r.problems[name]; err != nil {
			return fmt.Errorf("%d of %d nodes ready: %w", len(r.problems)-r.waiting, r.want, err)
		}
	}
	return nil
}

// follow reads the nodes and watches them until all are ready, or the watch ends.
func (r *nodeReadiness) follow(ctx context.Context, client kubernetes.Interface) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		r.set(&nodes.Items[i])
	}
	if r.done() {
		return nil
	}
	w, err := client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: nodes.ResourceVersion})
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		node, ok := event.Object.(*corev1.Node)
		switch {
		case !ok:
			return apierrors.FromObject(event.Object)
		case event.Type == watch.Deleted:
			r.remove(node.Name)
		default:
			r.set(node)
		}
		if r.done() {
			return nil
		}
	}
	return r.err()
}

func (c *config) schedulable(node *corev1.Node) error {
	ready := false
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			if condition.Status != corev1.ConditionTrue {
				return fmt.Errorf("node %s is not ready: %s: %s", node.Name, condition.Reason, condition.Message)
			}
			ready = true
		}
	}
	if !ready {
		return fmt.Errorf("node %s has not reported yet", node.Name)
	}
	if c.without[ControllerManager] {
		return nil // no controller removes the taint
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return fmt.Errorf("node %s still has the taint %s", node.Name, taint.Key)
		}
	}
	return nil
}
