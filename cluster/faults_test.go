package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"quintet.dev/quintet/faults"
)

// counter is a program that increments a number in a ConfigMap many times. The planted fault loses updates: it writes
// over a conflict instead of reading again.
func counter(ctx context.Context, client kubernetes.Interface, planted bool) (string, error) {
	const name = "numbers"
	maps := client.CoreV1().ConfigMaps("default")
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{}); err != nil {
		return "", err
	}
	for range 20 {
		increment := func() error {
			m, err := maps.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			m.Data = map[string]string{"n": m.Data["n"] + "1"}
			_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
			return err
		}
		if planted {
			if err := increment(); err != nil && !apierrors.IsConflict(err) {
				return "", err
			}
		} else if err := retry.RetryOnConflict(retry.DefaultBackoff, increment); err != nil {
			return "", err
		}
	}
	m, err := maps.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return m.Data["n"], maps.Delete(ctx, name, metav1.DeleteOptions{})
}

// TestFaultsFindAPlantedBug: conflicts do nothing to a program that retries, and show one that doesn't, each time that
// the seed is given.
func TestFaultsFindAPlantedBug(t *testing.T) {
	conflicts := faults.Plan{Seed: 11, Rules: []faults.Rule{{Name: "conflicts", Probability: 0.3,
		Match: faults.Match{Verbs: []string{"update"}, Resources: []string{"configmaps"}, Namespaces: []string{"default"}},
		Fault: faults.Fault{Status: 409}}}}
	c, err := Start(t.Context(), InProcess(), WithNodes(0), WithFaults(conflicts))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	want := strings.Repeat("1", 20)
	if got, err := counter(t.Context(), client, false); err != nil || got != want {
		t.Errorf("a program that retries counts to %d, %v", len(got), err)
	}
	log, err := c.InjectedFaults(t.Context())
	if err != nil || len(log) == 0 || log[0].Rule != "conflicts" {
		t.Errorf("the log is %v, %v", log, err)
	}
	if got, err := counter(t.Context(), client, true); err != nil || got == want {
		t.Errorf("a program that loses updates counts to %d, %v: it is not found", len(got), err)
	}
	if err := c.SetFaults(t.Context(), faults.Plan{}); err != nil {
		t.Fatal(err)
	}
	if got, err := counter(t.Context(), client, true); err != nil || got != want {
		t.Errorf("without faults it counts to %d, %v", len(got), err)
	}
	if err := c.SetFaults(t.Context(), faults.Plan{Rules: []faults.Rule{{}}}); err == nil ||
		!strings.Contains(err.Error(), "rules[0]") {
		t.Errorf("a bad plan: %v", err)
	}
}

// TestFaultsReachComponents: a controller's writes are disturbed under its name, and it copes.
func TestFaultsReachComponents(t *testing.T) {
	plan := faults.Plan{Seed: 3, Rules: []faults.Rule{
		{Name: "create", Times: 1, Fault: faults.Fault{LoseReply: true}, Match: faults.Match{Verbs: []string{"create"},
			Users:     []string{"system:serviceaccount:kube-system:service-account-controller", "system:kube-*"},
			Resources: []string{"serviceaccounts"}}},
		{Name: "cut", Match: faults.Match{Users: []string{"system:kube-controller-manager", "system:serviceaccount:*"},
			Verbs: []string{"watch"}}, Times: 2, Fault: faults.Fault{Cut: true, Spread: 3}},
	}}
	c, err := Start(t.Context(), InProcess(), WithNodes(0), WithFaults(plan))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Stop(context.WithoutCancel(t.Context())) }()
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	if _, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		_, err := client.CoreV1().ServiceAccounts("new").Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the service account is not made after a lost reply: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	log, err := c.InjectedFaults(t.Context())
	rules := map[string]bool{}
	for _, i := range log {
		rules[i.Rule] = true
	}
	if err != nil || !rules["create"] {
		t.Errorf("the log is %v, %v", log, err)
	}
}

// TestFaultsAreChecked: what can't be disturbed says so before anything starts, and what was not prepared for it, too.
func TestFaultsAreChecked(t *testing.T) {
	refuse := faults.Plan{Rules: []faults.Rule{{Name: "all", Fault: faults.Fault{Status: 500}}}}
	for want, opts := range map[string][]Option{
		"each count for itself":        {InProcess(), WithFaults(refuse), WithAPIServers(2)},
		"use faults.NewProxy":          {WithFaults(refuse), WithImage(APIServer, "mine:dev")},
		"faults: rules[0].fault: set ": {InProcess(), WithFaults(faults.Plan{Rules: []faults.Rule{{}}})},
	} {
		c, err := Start(t.Context(), opts...)
		if err == nil {
			_ = c.Stop(context.WithoutCancel(t.Context()))
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	c, err := Start(t.Context(), InProcess(), WithNodes(0), Without(ControllerManager), Without(Scheduler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Stop(context.WithoutCancel(t.Context())) }()
	if err := c.SetFaults(t.Context(), refuse); err == nil || !strings.Contains(err.Error(), "WithFaults") {
		t.Errorf("a cluster without: %v", err)
	}
	if _, err := c.InjectedFaults(t.Context()); err == nil || !strings.Contains(err.Error(), "WithFaults") {
		t.Errorf("the log of a cluster without: %v", err)
	}
}

// TestWatchFaults: a client whose watch is cut, expires, or delivers twice, has all objects in the end, and a handler
// that counts events instead of looking at objects is found.
func TestWatchFaults(t *testing.T) {
	watches := faults.Match{Verbs: []string{"watch"}, Resources: []string{"configmaps"}, Namespaces: []string{"default"}}
	plan := faults.Plan{Seed: 5, Rules: []faults.Rule{
		{Name: "cut", Match: watches, Times: 1, Fault: faults.Fault{Cut: true, After: 2}},
		{Name: "expire", Match: watches, Times: 1, Fault: faults.Fault{Status: 410, After: 2}},
		{Name: "twice", Match: watches, Fault: faults.Fault{Duplicate: true}},
	}}
	c, err := Start(t.Context(), InProcess(), WithNodes(0), Without(ControllerManager), Without(Scheduler),
		WithFaults(plan))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Stop(context.WithoutCancel(t.Context())) }()
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := map[string]int{}
	go func() { // objects that come one after the other
		for i := range 12 {
			_, _ = client.CoreV1().ConfigMaps("default").Create(ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%02d", i)}}, metav1.CreateOptions{})
			time.Sleep(10 * time.Millisecond)
		}
	}()
	version := ""
	for len(seen) < 12 && ctx.Err() == nil {
		if version == "" {
			list, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range list.Items {
				seen[m.Name]++
			}
			version = list.ResourceVersion
		}
		w, err := client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		for len(seen) < 12 {
			e, open := <-w.ResultChan()
			if !open {
				break
			}
			switch o := e.Object.(type) {
			case *corev1.ConfigMap:
				seen[o.Name]++
				version = o.ResourceVersion
			case *metav1.Status:
				if o.Code == 410 {
					version = "" // list again
				}
			}
		}
		w.Stop()
	}
	log, err := c.InjectedFaults(t.Context())
	if err != nil || len(log) < 3 || log[0].Rule != "cut" || log[1].Rule != "expire" || log[2].Rule != "twice" {
		t.Errorf("the log is %+v, %v", log, err)
	}
	events := 0
	for _, n := range seen {
		events += n
	}
	if len(seen) != 12 || events <= 12 {
		t.Errorf("%d objects by %d events", len(seen), events)
	}
}
