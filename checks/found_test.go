package checks_test

import (
	"context"
	"flag"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/faults"
)

var seed = flag.Uint64("seed", 7, "decides which requests are disturbed")

// apiServer starts an API server that ends with the test.
func apiServer(t *testing.T) *rest.Config {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.InProcess(), cluster.WithNodes(0),
		cluster.Without(cluster.ControllerManager), cluster.Without(cluster.Scheduler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	config := c.RESTConfig()
	config.QPS = -1
	return config
}

// disturb returns a configuration whose requests suffer from faults, until the test ends, and what injects them.
func disturb(t *testing.T, config *rest.Config, user string, rules ...faults.Rule) (*rest.Config, *faults.Injector) {
	t.Helper()
	injector, err := faults.New(faults.Plan{Seed: *seed, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := faults.NewProxy(injector)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	disturbed, err := proxy.For(user, config)
	if err != nil {
		t.Fatal(err)
	}
	disturbed.QPS = -1
	return disturbed, injector
}

// try runs a subject under a fault, and returns which requests were disturbed and what is wrong.
func try(t *testing.T, config *rest.Config, run subject, rule faults.Rule, planted bool) ([]faults.Injected, error) {
	t.Helper()
	disturbed, injector := disturb(t, config, "subject", rule)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	wrong, err := run(ctx, disturbed, config, planted)
	if err != nil {
		t.Fatalf("planted %t, seed %d: %v", planted, *seed, err)
	}
	objects, err := objectsOf(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := objects.DeleteCollection(t.Context(), metav1.DeleteOptions{}, ofSubject); err != nil {
		t.Fatal(err)
	}
	return injector.Log(), wrong
}

// TestFaultsFindPlantedBugs: under each kind of fault a program that is right passes, and a bug is found, and found
// again by its seed. Without a fault the bug is not found.
func TestFaultsFindPlantedBugs(t *testing.T) {
	config := apiServer(t)
	on := func(verb string, part float64, fault faults.Fault) faults.Rule {
		return faults.Rule{Match: faults.Match{Verbs: []string{verb}, Resources: []string{"configmaps"}},
			Probability: part, Times: 4, Fault: fault}
	}
	once := func(fault faults.Fault) faults.Rule {
		rule := on("watch", 0, fault)
		rule.Times = 1
		return rule
	}
	for name, test := range map[string]struct {
		run  subject
		rule faults.Rule
	}{
		"delay":       {maker, on("create", 0.3, faults.Fault{Delay: metav1.Duration{Duration: 3 * time.Second}})},
		"409":         {counter, on("update", 0.3, faults.Fault{Status: 409})},
		"429":         {maker, on("create", 0.3, faults.Fault{Status: 429})},
		"lost reply":  {repeater, on("create", 0.3, faults.Fault{LoseReply: true})},
		"410":         {holder, once(faults.Fault{Status: 410, After: 1, Spread: rounds})},
		"cut watch":   {holder, once(faults.Fault{Cut: true, After: 1, Spread: rounds})},
		"stale watch": {stale, once(faults.Fault{Stall: metav1.Duration{Duration: time.Hour}, After: 1, Spread: rounds})},
		"duplicate":   {census, once(faults.Fault{Duplicate: true, After: 1, Spread: rounds / 2})},
	} {
		t.Run(name, func(t *testing.T) {
			if log, wrong := try(t, config, test.run, test.rule, false); wrong != nil || len(log) == 0 {
				t.Errorf("a program that is right: %v; %d faults", wrong, len(log))
			}
			none := test.rule
			none.Match.Users = []string{"another"}
			if _, wrong := try(t, config, test.run, none, true); wrong != nil {
				t.Errorf("the bug, without a fault: %v", wrong)
			}
			log, first := try(t, config, test.run, test.rule, true)
			if first == nil {
				t.Fatalf("the bug is not found by %v", log)
			}
			same, again := try(t, config, test.run, test.rule, true)
			if again == nil || !reflect.DeepEqual(log, same) {
				t.Errorf("the same seed finds %v, and then %v, by\n%v\n%v", first, again, log, same)
			}
		})
	}
}
