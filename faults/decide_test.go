package faults

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func injector(t *testing.T, plan Plan) *Injector {
	t.Helper()
	i, err := New(plan)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func key(verb, name string) Key {
	return Key{User: "u", Verb: verb, Resource: "pods", Namespace: "ns", Name: name}
}

// TestSameSeedSameLog: what strikes depends on the seed and on each object's own requests, not on their order.
func TestSameSeedSameLog(t *testing.T) {
	plan := Plan{Seed: 7, Rules: []Rule{{Probability: 0.3, Fault: Fault{Status: 500}},
		{Probability: 0.5, Fault: Fault{Cut: true, After: 2, Spread: 5}}}}
	var keys []Key
	for n := range 400 {
		keys = append(keys, key([]string{"get", "update", "watch"}[n%3], fmt.Sprint("p", n%20)))
	}
	run := func(shuffled bool) []Injected {
		i := injector(t, plan)
		order := append([]Key(nil), keys...)
		if shuffled {
			rand.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
		}
		var all sync.WaitGroup
		for from := range 4 {
			all.Go(func() {
				for n := from; n < len(order); n += 4 {
					i.Decide(order[n])
				}
			})
		}
		all.Wait()
		return i.Log()
	}
	first := run(false)
	if len(first) < 80 || len(first) > 320 {
		t.Errorf("%d of 400 are disturbed", len(first))
	}
	for range 5 {
		if again := run(true); !reflect.DeepEqual(first, again) {
			t.Fatalf("the same seed gives another log:\n%v\n%v", first, again)
		}
	}
	plan.Seed = 8
	if reflect.DeepEqual(first, run(false)) {
		t.Error("another seed gives the same log")
	}
}

// TestProbability: about that part is disturbed.
func TestProbability(t *testing.T) {
	for _, p := range []float64{0.05, 0.5, 0.95} {
		i := injector(t, Plan{Rules: []Rule{{Probability: p, Fault: Fault{Status: 500}}}})
		for n := range 10_000 {
			i.Decide(key("get", fmt.Sprint(n)))
		}
		if got := float64(len(i.Log())) / 10_000; got < p-0.02 || got > p+0.02 {
			t.Errorf("%v of the requests are disturbed, want %v", got, p)
		}
	}
}

func TestWhatStrikes(t *testing.T) {
	refuse := Fault{Status: 500}
	accounts := Match{Users: []string{"system:serviceaccount:*"}}
	deployments := Key{User: "system:serviceaccount:ns:op", Verb: "patch", Resource: "deployments.apps/status",
		Namespace: "ns", Name: "web"}
	for name, c := range map[string]struct {
		rule Rule
		key  Key
		want bool
	}{
		"all":          {Rule{Fault: refuse}, key("get", "p"), true},
		"the user":     {Rule{Match: accounts, Fault: refuse}, deployments, true},
		"another user": {Rule{Match: accounts, Fault: refuse}, key("get", "p"), false},
		"the verb":     {Rule{Match: Match{Verbs: []string{"get", "patch"}}, Fault: refuse}, deployments, true},
		"another verb": {Rule{Match: Match{Verbs: []string{"update"}}, Fault: refuse}, deployments, false},
		"a subresource by star": {Rule{Match: Match{Resources: []string{"deployments.apps/*"}}, Fault: refuse},
			deployments, true},
		"without the subresource": {Rule{Match: Match{Resources: []string{"deployments.apps"}}, Fault: refuse},
			deployments, false},
		"another namespace":       {Rule{Match: Match{Namespaces: []string{"other"}}, Fault: refuse}, deployments, false},
		"the name":                {Rule{Match: Match{Names: []string{"w?b"}}, Fault: refuse}, deployments, true},
		"a lost reply of a watch": {Rule{Fault: Fault{LoseReply: true}}, key("watch", ""), false},
		"a cut of a get":          {Rule{Fault: Fault{Cut: true}}, key("get", "p"), false},
		"a cut of a watch":        {Rule{Fault: Fault{Cut: true}}, key("watch", ""), true},
		"a refused watch":         {Rule{Fault: Fault{Status: 410}}, key("watch", ""), true},
		"an event of a get":       {Rule{Fault: Fault{Status: 410, After: 3}}, key("get", "p"), false},
	} {
		if _, got := injector(t, Plan{Rules: []Rule{c.rule}}).Decide(c.key); got != c.want {
			t.Errorf("%s: strikes %v, want %v", name, got, c.want)
		}
	}
}

func TestTimesAndOrder(t *testing.T) {
	i := injector(t, Plan{Rules: []Rule{{Name: "first", Times: 2, Fault: Fault{Status: 409}},
		{Name: "second", Fault: Fault{Status: 500}}}})
	var got []string
	for _, name := range []string{"a", "a", "b", "a"} {
		f, _ := i.Decide(key("update", name))
		got = append(got, f.String())
	}
	if want := "409 409 409 500"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	if log := i.Log(); log[2].Occurrence != 2 || log[2].Rule != "second" || log[2].Name != "a" {
		t.Errorf("the log has %+v", log)
	}
}

func TestLoad(t *testing.T) {
	p, err := Load("plan.yaml", []byte(`
seed: 7
rules:
- name: conflicts
  match: {verbs: [update], resources: [deployments.apps]}
  probability: 0.5
  times: 3
  fault: {delay: 20ms, status: 409}
- fault: {cut: true, after: 3, spread: 4}
`))
	if err != nil || p.Seed != 7 || len(p.Rules) != 2 || p.Rules[0].Fault.Delay.Duration != 20*time.Millisecond ||
		p.Rules[1].Fault.Spread != 4 {
		t.Errorf("%+v, %v", p, err)
	}
	for text, want := range map[string]string{
		"seed: 1\nrules:\n- fault: {}": "plan.yaml:3: rules[0].fault: set one of",
		"rules:\n- {name: a, fault: {cut: true}}\n- fault:\n    delay: 1s\n    status: 200": "plan.yaml:5: " +
			"rules[1].fault.status: 200",
		"rules: [{fault: {status: 500}, probability: 2}]":              "rules[0].probability: 2",
		"rules: [{fault: {status: 500}, probability: .nan}]":           "rules[0].probability: NaN",
		"rules: [{fault: {status: 500}, times: -1}]":                   "times: -1",
		"rules: [{fault: {status: 500, cut: true}}]":                   "more than one of",
		"rules: [{fault: {status: 500, retryAfter: 1}}]":               "fault.retryAfter",
		"rules: [{fault: {loseReply: true, after: 1}}]":                "fault.after",
		"rules: [{fault: {delay: -1s}}]":                               "fault.delay: -1s",
		"rules: [{fault: {delay: 3}}]":                                 "plan.yaml:1: rules[0].fault.delay: want",
		"rules: [{fault: {delay: soon}}]":                              "plan.yaml:1: rules[0].fault.delay: ",
		"rules: [{fault: {stall: 2h}}]":                                "fault.stall: 2h",
		"rules: [{fault: {cut: true, spread: -1}}]":                    "fault.spread: -1",
		"rules: [{fault: {cut: true}, match: {users: ['[']}}]":         "rules[0].match.users[0]",
		"rules:\n- fault: {cut: true}\n  matches: {users: [a]}":        "plan.yaml:3: rules[0].matches: there is no such field",
		"rules: [{fault: {cut: true}, match: {verbs: [updat]}}]":       `match.verbs: "updat" is none of get`,
		"rules: [{fault: {cut: true}, match: {verbs: [get]}}]":         "strikes watches only",
		"rules: [{fault: {loseReply: true}, match: {verbs: [watch]}}]": "strikes no watches",
		"rules: []\nseed: many":                                        "plan.yaml:2: seed: want a whole number",
		"seed: -1":                                                     "plan.yaml:1: seed: want a whole number of at least 0",
	} {
		if _, err := Load("plan.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestShrink finds the rules that matter, whichever they are, and each time decides about them as in the whole plan.
func TestShrink(t *testing.T) {
	whole := Plan{Seed: 3}
	for n := range 9 {
		whole.Rules = append(whole.Rules, Rule{Probability: 0.5, Fault: Fault{Delay: metav1.Duration{
			Duration: time.Duration(n+1) * time.Second}}})
	}
	for _, needed := range [][]int{{4}, {0, 8}, {1, 2, 7}, {0, 1, 2, 3, 4, 5, 6, 7, 8}} {
		calls := 0
		got := Shrink(whole, func(p Plan) bool {
			calls++
			have := map[string]bool{}
			for _, r := range p.Rules {
				have[r.Name] = true
			}
			for _, n := range needed {
				if !have[fmt.Sprintf("rule %d", n)] {
					return false
				}
			}
			return true
		})
		var names, want []string
		for _, r := range got.Rules {
			names = append(names, r.Name)
		}
		for _, n := range needed {
			want = append(want, fmt.Sprintf("rule %d", n))
		}
		if !reflect.DeepEqual(names, want) || calls > 60 {
			t.Errorf("after %d calls %v, want %v", calls, names, want)
		}
		chance, _ := whole.draw(needed[0], key("get", "p"), 0)
		if again, _ := got.draw(0, key("get", "p"), 0); again != chance {
			t.Errorf("rule %d decides in another way", needed[0])
		}
	}
}

// TestShrinkBlamesNoRule: what fails without any rule needs none, also of a plan that has a single one.
func TestShrinkBlamesNoRule(t *testing.T) {
	whole := Plan{Seed: 3, Rules: []Rule{{Fault: Fault{Status: 500}}, {Fault: Fault{Status: 409}}}}
	for ; len(whole.Rules) > 0; whole.Rules = whole.Rules[1:] {
		calls := 0
		got := Shrink(whole, func(Plan) bool {
			calls++
			return true
		})
		if len(got.Rules) > 0 || got.Seed != 3 || calls != 1 {
			t.Errorf("of %d rules, after %d calls: %+v", len(whole.Rules), calls, got)
		}
	}
}
