package lostupdate

import (
	"context"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/faults"
)

const rounds = 20

// conflicts answers two of five updates of the counter with a conflict, the same ones each time.
var conflicts = faults.Plan{Seed: 7, Rules: []faults.Rule{{
	Match:       faults.Match{Verbs: []string{"update"}, Resources: []string{"configmaps"}, Names: []string{"counter"}},
	Probability: 0.4,
	Fault:       faults.Fault{Status: 409},
}}}

// TestCounters: alone, and undisturbed, both count right. The careless one is found out by conflicts.
func TestCounters(t *testing.T) {
	for name, test := range map[string]struct {
		increment func(context.Context, client.Client, client.ObjectKey) error
		plan      faults.Plan
		right     bool
	}{
		"careless": {Careless, faults.Plan{}, true}, "careless, conflicts": {Careless, conflicts, false},
		"careful, conflicts": {Careful, conflicts, true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			c, err := cluster.Start(ctx, cluster.InProcess(), cluster.WithNodes(0), cluster.WithFaults(test.plan))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Stop(context.Background()) })
			api, err := client.New(c.RESTConfig(), client.Options{Scheme: scheme.Scheme})
			if err != nil {
				t.Fatal(err)
			}
			counter := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "counter"}}
			if err := api.Create(ctx, counter); err != nil {
				t.Fatal(err)
			}
			for range rounds {
				if err := test.increment(ctx, api, client.ObjectKeyFromObject(counter)); err != nil {
					t.Fatal(err)
				}
			}
			if err := api.Get(ctx, client.ObjectKeyFromObject(counter), counter); err != nil {
				t.Fatal(err)
			}
			if right := counter.Data["count"] == strconv.Itoa(rounds); right != test.right {
				t.Errorf("the count is %s after %d rounds", counter.Data["count"], rounds)
			}
		})
	}
}
