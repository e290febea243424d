package traffic

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"quintet.dev/quintet/conformance/suite"
)

// scripted is an attempt with these results, the last one of which stays.
func scripted(results ...Result) Attempt {
	return func(context.Context) (Result, error) {
		result := results[0]
		if len(results) > 1 {
			results = results[1:]
		}
		return result, nil
	}
}

// verdict runs a check and returns what it says; "" is that it passed.
func verdict(check func(t *suite.T)) (said string) {
	type failure struct{}
	defer func() {
		if r := recover(); r != nil {
			if _, ours := r.(failure); !ours {
				panic(r)
			}
		}
	}()
	check(&suite.T{Gomega: gomega.NewGomega(func(message string, _ ...int) {
		said = message
		panic(failure{})
	})})
	return ""
}

func TestBlockedWantsItToLast(t *testing.T) {
	yes, no := Result{OK: true, Text: "server"}, Result{Text: "i/o timeout"}
	for name, test := range map[string]struct {
		attempt Attempt
		passes  bool
	}{
		"from the start": {scripted(no), true},
		"after a while":  {scripted(yes, yes, no), true},
		"for a moment":   {scripted(yes, no, yes), false},
		"now and then":   {scripted(no, no, yes), false},
	} {
		said := verdict(func(st *suite.T) { Blocked(t.Context(), st, "no answer", test.attempt) })
		if (said == "") != test.passes {
			t.Errorf("%s: %q", name, said)
		}
	}
}

func TestNamesOfSeveralAttempts(t *testing.T) {
	a, b := Result{OK: true, Text: "a"}, Result{OK: true, Text: "b"}
	names, err := Names(4, scripted(a, b, a, b))(t.Context())
	if err != nil || strings.Join(names, " ") != "a b" {
		t.Errorf("%v, %v", names, err)
	}
	broken := errors.New("no exec")
	fails := func(context.Context) (Result, error) { return Result{}, broken }
	if _, err := Names(2, fails)(t.Context()); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

func TestResultMatchers(t *testing.T) {
	node := corev1.Node{Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Address: "10.0.0.1"}, {Address: "fd00::1"}},
	}}
	for name, test := range map[string]struct {
		matches, want bool
	}{
		"succeeds":         {matches(t, Succeeds(From("10.0.0.1")), Result{OK: true, Text: "10.0.0.1:4000"}), true},
		"another address":  {matches(t, Succeeds(From("10.0.0.1")), Result{OK: true, Text: "10.0.0.11:4000"}), false},
		"failed":           {matches(t, Succeeds(From("10.0.0.1")), Result{Text: "10.0.0.1:4000"}), false},
		"fails":            {matches(t, Fails(gomega.Equal("503")), Result{Text: "503"}), true},
		"did not fail":     {matches(t, Fails(gomega.Equal("503")), Result{OK: true, Text: "503"}), false},
		"of the node":      {matches(t, Succeeds(FromAny(node)), Result{OK: true, Text: "[fd00::1]:4000"}), true},
		"of no such node":  {matches(t, Succeeds(FromAny(node)), Result{OK: true, Text: "10.0.0.2:4000"}), false},
		"of a longer name": {matches(t, Succeeds(FromAny(node)), Result{OK: true, Text: "10.0.0.12:1"}), false},
	} {
		if test.matches != test.want {
			t.Errorf("%s: %v", name, test.matches)
		}
	}
}

func matches(t *testing.T, m interface{ Match(any) (bool, error) }, actual any) bool {
	t.Helper()
	ok, err := m.Match(actual)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func TestAddressesOfBothFamilies(t *testing.T) {
	for ip, want := range map[string][2]string{
		"10.0.0.1": {"10.0.0.1/32", string(discoveryv1.AddressTypeIPv4)},
		"fd00::1":  {"fd00::1/128", string(discoveryv1.AddressTypeIPv6)},
	} {
		if got := [2]string{SingleAddress(ip), string(addressType(ip))}; got != want {
			t.Errorf("%s: %v", ip, got)
		}
	}
}

func TestLabelPatch(t *testing.T) {
	for value, want := range map[string]string{
		"x": `{"metadata":{"labels":{"app":"x"}}}`,
		"":  `{"metadata":{"labels":{"app":null}}}`,
	} {
		if got := string(labelPatch("app", value)); got != want {
			t.Errorf("%q: %s", value, got)
		}
	}
}

func TestParseResolver(t *testing.T) {
	got := parseResolver("# made\nsearch ns.svc.a svc.a a\nnameserver 10.0.0.10\nnameserver fd00::a\n" +
		"options ndots:5 edns0\n\n")
	want := Resolver{
		Servers:  []string{"10.0.0.10", "fd00::a"},
		Searches: []string{"ns.svc.a", "svc.a", "a"},
		Options:  []string{"ndots:5", "edns0"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}
