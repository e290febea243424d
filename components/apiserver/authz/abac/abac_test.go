package abac

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func load(t *testing.T, text string) (Policies, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policies")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path)
}

const versioned = `{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": `

func TestPolicies(t *testing.T) {
	all := user.AllAuthenticated
	pods := func(verb, namespace string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{Verb: verb, Namespace: namespace, Resource: "pods", ResourceRequest: true}
	}
	deployments := authorizer.AttributesRecord{Verb: "get", Namespace: "ns", APIGroup: "apps", Resource: "deployments",
		ResourceRequest: true}
	path := func(p string) authorizer.AttributesRecord { return authorizer.AttributesRecord{Verb: "get", Path: p} }
	for _, c := range []struct {
		policy, user string
		groups       []string
		asked        authorizer.AttributesRecord
		want         bool
	}{
		{versioned + `{"user":"jane","namespace":"ns","resource":"pods"}}`, "jane", nil, pods("create", "ns"), true},
		{versioned + `{"user":"jane","namespace":"ns","resource":"pods"}}`, "joe", nil, pods("create", "ns"), false},
		{versioned + `{"user":"jane","namespace":"ns","resource":"pods"}}`, "jane", nil, pods("create", "other"),
			false},
		{versioned + `{"user":"jane","namespace":"ns","resource":"pods","readonly":true}}`, "jane", nil,
			pods("create", "ns"), false},
		{versioned + `{"user":"jane","namespace":"ns","resource":"pods","readonly":true}}`, "jane", nil,
			pods("list", "ns"), true},
		{versioned + `{"user":"jane","group":"devs","namespace":"*","resource":"*"}}`, "jane", nil, pods("get", "ns"),
			false},
		{versioned + `{"user":"jane","group":"devs","namespace":"*","resource":"*"}}`, "jane", []string{"devs"},
			pods("get", "ns"), true},
		{versioned + `{"user":"jane","namespace":"*","resource":"*"}}`, "jane", nil, deployments, false},
		{versioned + `{"user":"jane","namespace":"*","resource":"*","apiGroup":"*"}}`, "jane", nil, deployments, true},
		{versioned + `{"user":"jane","namespace":"*","resource":"*","apiGroup":"*"}}`, "jane", nil, path("/healthz"),
			false},
		{versioned + `{"group":"*","nonResourcePath":"/health*"}}`, "jane", []string{all}, path("/healthz"), true},
		{versioned + `{"group":"*","nonResourcePath":"/health*"}}`, "nobody", nil, path("/healthz"), false},
		{versioned + `{"group":"*","nonResourcePath":"/healthz"}}`, "jane", []string{all}, path("/healthz/ping"),
			false},
		{versioned + `{"namespace":"*","resource":"*"}}`, "jane", nil, pods("get", "ns"), false},
		{`{"user":"jane"}`, "jane", nil, deployments, true},
		{`{"user":"jane"}`, "jane", nil, path("/metrics"), true},
		{`{"user":"jane","namespace":"ns"}`, "jane", nil, path("/metrics"), false},
		{`{"readonly":true}`, "jane", []string{all}, pods("get", "ns"), true},
		{`{"readonly":true}`, "nobody", nil, pods("get", "ns"), false},
	} {
		p, err := load(t, "# a comment\n\n"+c.policy+"\n")
		if err != nil {
			t.Fatal(err)
		}
		c.asked.User = &user.DefaultInfo{Name: c.user, Groups: c.groups}
		decision, reason, err := p.Authorize(context.Background(), c.asked)
		if err != nil || (decision == authorizer.DecisionAllow) != c.want || !c.want && reason != "No policy matched." {
			t.Errorf("%s: %s %v %+v: got %v %q %v", c.policy, c.user, c.groups, c.asked, decision, reason, err)
		}
	}
}

func TestRules(t *testing.T) {
	p,
		err := load(t, versioned+`{"user":"jane","namespace":"ns","resource":"pods","readonly":true,"nonResourcePath":"/x"}}`)
	if err != nil {
		t.Fatal(err)
	}
	rules, paths, incomplete, err := p.RulesFor(context.Background(), &user.DefaultInfo{Name: "jane"}, "ns")
	if err != nil || incomplete || len(rules) != 1 || strings.Join(rules[0].GetVerbs(), ",") != "get,list,watch" ||
		len(paths) != 1 {
		t.Errorf("got %v, %v, %v, %v", rules, paths, incomplete, err)
	}
	if rules, _, _, _ := p.RulesFor(context.Background(), &user.DefaultInfo{Name: "jane"}, "other"); len(rules) != 0 {
		t.Errorf("elsewhere: %v", rules)
	}
}

func TestMalformed(t *testing.T) {
	for text, want := range map[string]string{
		"{}\n{bad": "line 2: {bad: couldn't get version/kind; json parse error: invalid character 'b' looking for " +
			"beginning of object key string",
		`{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policies"}`: `line 1: {"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policies"}: no kind "Policies" is registered for version "abac.authorization.kubernetes.io/v1beta1"`,
		strings.Repeat("x", 1<<17): "bufio.Scanner: token too long",
	} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "error reading policy file ") {
			t.Errorf("%.50s: got %.300v, want %s", text, err, want)
		}
	}
	if _, err := Load("/none"); err == nil || err.Error() != "open /none: no such file or directory" {
		t.Errorf("got %v", err)
	}
}
