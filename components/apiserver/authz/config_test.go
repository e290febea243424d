package authz

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/metrics/legacyregistry"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
	"quintet.dev/quintet/internal/follow"
)

func write(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// remoteService answers by user name, and counts.
type remoteService struct {
	*httptest.Server
	kubeconfig string
	asked      []string
}

func newRemoteService(t *testing.T) *remoteService {
	t.Helper()
	s := &remoteService{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		s.asked = append(s.asked, review.Spec.User)
		review.Status.Allowed = review.Spec.User == "allowed"
		review.Status.Denied = review.Spec.User == "denied"
		review.Status.Reason = "says " + review.APIVersion
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&review)
	}))
	t.Cleanup(s.Close)
	s.kubeconfig = write(t, "kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
contexts: [{name: x, context: {cluster: c, user: ""}}]
current-context: x
`, s.URL))
	return s
}

const (
	allow     = authorizer.DecisionAllow
	deny      = authorizer.DecisionDeny
	noOpinion = authorizer.DecisionNoOpinion
)

func ask(c *Chain, name, verb string) (authorizer.Decision, string) {
	decision, reason, _ := c.Authorize(context.Background(), authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: name}, Verb: verb, Resource: "pods", ResourceRequest: true})
	return decision, reason
}

func TestWebhookByFlags(t *testing.T) {
	s := newRemoteService(t)
	c, err := New(Config{Modes: []string{ModeWebhook, ModeAlwaysAllow},
		Webhook: Webhook{ConfigFile: s.kubeconfig, CacheAuthorizedTTL: time.Hour}, Objects: &objectstest.Store{}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]authorizer.Decision{"allowed": allow, "denied": deny, "other": allow} {
		for range 2 {
			if got, reason := ask(c, name, "get"); got != want ||
				(name != "other" && reason != "says authorization.k8s.io/v1beta1") {
				t.Errorf("%s: %v, %q", name, got, reason)
			}
		}
	}
	if len(s.asked) != 5 {
		t.Errorf("asked about %q; only what is allowed is to be remembered", s.asked)
	}
	if _, _, incomplete, err := c.RulesFor(context.Background(), &user.DefaultInfo{Name: "x"}, "ns"); !incomplete ||
		err == nil {
		t.Errorf("a webhook's rules can't be listed, but: %v, %v", incomplete, err)
	}
}

const configHeader = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n"

func webhookEntry(name, kubeconfig, failurePolicy, more string) string {
	return fmt.Sprintf("- {type: Webhook, name: %s, webhook: {timeout: 3s, subjectAccessReviewVersion: v1, "+
		"matchConditionSubjectAccessReviewVersion: v1, "+
		"failurePolicy: %s, connectionInfo: {type: KubeConfigFile, kubeConfigFile: %q}%s}}\n", name, failurePolicy,
		kubeconfig, more)
}

func TestConfigFile(t *testing.T) {
	s, gone := newRemoteService(t), newRemoteService(t)
	gone.Close()
	const onlyGets = `, matchConditions: [{expression: 'request.resourceAttributes.verb == "get"'}]`
	const broken = `, matchConditions: [{expression: 'request.extra["none"][0] == "x"'}]`
	for name, tt := range map[string]struct {
		config     string
		user, verb string
		want       authorizer.Decision
	}{
		"asked":     {webhookEntry("one", s.kubeconfig, "Deny", onlyGets), "allowed", "get", allow},
		"not asked": {webhookEntry("one", s.kubeconfig, "Deny", onlyGets), "allowed", "list", noOpinion},
		"in order": {webhookEntry("one", s.kubeconfig, "Deny", "") + "- {type: AlwaysAllow, name: alwaysallow}\n",
			"denied", "get", deny},
		"next": {webhookEntry("one", s.kubeconfig, "Deny", onlyGets) +
			"- {type: AlwaysAllow, name: alwaysallow}\n", "denied", "list", allow},
		"fails closed": {webhookEntry("one", gone.kubeconfig, "Deny", "") +
			"- {type: AlwaysAllow, name: alwaysallow}\n", "x", "get", deny},
		"fails open": {webhookEntry("one", gone.kubeconfig, "NoOpinion", "") +
			"- {type: AlwaysAllow, name: alwaysallow}\n", "x", "get", allow},
		"can't match": {webhookEntry("one", s.kubeconfig, "Deny", broken) +
			"- {type: AlwaysAllow, name: alwaysallow}\n", "x", "get", deny},
		"two webhooks": {webhookEntry("one", s.kubeconfig, "Deny", onlyGets) +
			webhookEntry("two", s.kubeconfig, "Deny", ""), "allowed", "list", allow},
		"always denies": {"- {type: AlwaysDeny, name: alwaysdeny}\n", "x", "get", noOpinion},
	} {
		c, err := New(Config{ConfigFile: write(t, "config.yaml", configHeader+tt.config),
			Objects: &objectstest.Store{}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, reason := ask(c, tt.user, tt.verb); got != tt.want {
			t.Errorf("%s: %v, %q", name, got, reason)
		}
	}
}

func TestConfigReload(t *testing.T) {
	file := write(t, "config.yaml", configHeader+"- {type: AlwaysDeny, name: alwaysdeny}\n")
	clk := testingclock.NewFakeClock(time.Now())
	c, err := New(Config{ConfigFile: file, Objects: &objectstest.Store{}, Clock: clk})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	if got, _ := ask(c, "x", "get"); got != noOpinion {
		t.Errorf("before the change: %v", got)
	}
	const denyAndAllow = "- {type: AlwaysDeny, name: alwaysdeny}\n- {type: AlwaysAllow, name: alwaysallow}\n"
	if err := os.WriteFile(file, []byte(configHeader+denyAndAllow), 0o600); err != nil {
		t.Fatal(err)
	}
	for got := noOpinion; got != allow; got, _ = ask(c, "x", "get") {
		clk.Step(follow.Every)
		runtime.Gosched()
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for mode, name := range map[string]string{ModeNode: "node", ModeRBAC: "rbac"} {
		config, err := decodeConfig(
			[]byte(configHeader + denyAndAllow + "- {type: " + mode + ", name: " + name + "}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.replace(config); err == nil ||
			!strings.Contains(err.Error(), mode+" is not allowed if it was not enabled at initial server startup") {
			t.Errorf("a late %s: %v", mode, err)
		}
	}
	if err := c.reload([]byte(configHeader+"- {type: AlwaysAllow, name: alwaysallow}\n"), ""); err == nil ||
		err.Error() != "missing required types: [AlwaysDeny]" {
		t.Errorf("without what is there from the start: %v", err)
	}
	if got, _ := ask(c, "x", "get"); got != allow {
		t.Errorf("after a change that can't be made: %v", got)
	}
}

// reloads are the counts of those that succeeded and failed.
func reloads(t *testing.T) (succeeded, failed float64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "apiserver_authorization_config_controller_automatic_reloads_total" {
			continue
		}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				switch l.GetValue() {
				case "success":
					succeeded += m.Counter.GetValue()
				case "failure":
					failed += m.Counter.GetValue()
				}
			}
		}
	}
	return succeeded, failed
}

// TestReloadsAreCounted once each, however long what is wrong stays, and not at all if the file means what it did.
func TestReloadsAreCounted(t *testing.T) {
	const always = "- {type: AlwaysAllow, name: alwaysallow}\n"
	file := write(t, "config.yaml", configHeader+always)
	clk := testingclock.NewFakeClock(time.Now())
	c, err := New(Config{ConfigFile: file, Objects: &objectstest.Store{}, Clock: clk})
	if err != nil {
		t.Fatal(err)
	}
	fine, bad := reloads(t)
	if err := c.reload([]byte("# the same\n"+configHeader+always), ""); err != nil {
		t.Fatal(err)
	}
	if succeeded, _ := reloads(t); succeeded != fine {
		t.Error("the same configuration counts")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	put := func(content string) { // in one go
		if err := os.Rename(write(t, "next", content), file); err != nil {
			t.Fatal(err)
		}
	}
	for i, content := range []string{"nonsense",
		configHeader + always + webhookEntry("x", write(t, "empty", ""), "Deny", "")} {
		put(content)
		for failed := bad; failed <= bad+float64(i); _, failed = reloads(t) {
			clk.Step(follow.Every)
		}
		for range 100 {
			clk.Step(follow.Retry)
			runtime.Gosched()
		}
	}
	put(configHeader + always + "- {type: AlwaysDeny, name: alwaysdeny}\n")
	for succeeded := fine; succeeded == fine; succeeded, _ = reloads(t) {
		clk.Step(follow.Every)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if succeeded, failed := reloads(t); succeeded != fine+1 || failed != bad+2 {
		t.Errorf("%v succeeded and %v failed, want 1 and 2", succeeded-fine, failed-bad)
	}
}

// TestConfigErrors: each error names flag, file and cause.
func TestConfigErrors(t *testing.T) {
	garbage := write(t, "garbage", "garbage")
	for name, tt := range map[string]struct{ content, want string }{
		"empty":   {"", "authorizers: Required value: at least one authorization mode must be defined"},
		"no YAML": {"x: [", "yaml: line 1"},
		"other kind": {"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n",
			"expected AuthorizationConfiguration, got *apiserver.AuthenticationConfiguration"},
		"unknown field": {configHeader + "- {type: RBAC, name: rbac, foo: 1}",
			`strict decoding error: unknown field "authorizers[0].foo"`},
		"twice": {configHeader + "- {type: RBAC, name: rbac}\n- {type: RBAC, name: b}",
			`authorizers[1].type: Duplicate value: "RBAC"`},
		"name": {configHeader + "- {type: RBAC, name: x}",
			"expected name rbac for authorizer RBAC instead of x"},
		"type": {configHeader + "- {type: Magic, name: x}", `authorizers[0].type: Unsupported value: "Magic"`},
		"ABAC": {configHeader + "- {type: ABAC, name: abac}",
			"--authorization-policy-file: open : no such file"},
		"no webhook": {configHeader + "- {type: Webhook, name: x}", "authorizers[0].webhook: Required value"},
		"missing file": {configHeader + webhookEntry("x", "/none", "Deny", ""),
			`kubeConfigFile: Invalid value: "/none": error loading file`},
		"broken file": {configHeader + webhookEntry("x", garbage, "Deny", ""), "webhook x: " + garbage},
		"condition": {configHeader + webhookEntry("x", garbage, "Deny", ", matchConditions: [{expression: foo}]"),
			"matchConditions[0].expression: Invalid value"},
		"in cluster": {configHeader +
			"- {type: Webhook, name: x, webhook: {timeout: 3s, subjectAccessReviewVersion: v1, failurePolicy: Deny, " +
			"connectionInfo: {type: InClusterConfig}}}",
			"connectionInfo.type InClusterConfig is not allowed for kube-apiserver"},
	} {
		file := write(t, "config.yaml", tt.content)
		_, err := New(Config{ConfigFile: file, Objects: &objectstest.Store{}})
		for _, want := range []string{"--authorization-config " + file + ": ", tt.want} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q in it", name, err, want)
			}
		}
	}
	for name, tt := range map[string]struct {
		cfg  Config
		want string
	}{
		"missing file": {Config{ConfigFile: "/none"}, "--authorization-config /none: open /none"},
		"file and modes": {Config{ConfigFile: garbage, Modes: []string{"RBAC"}},
			"--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are " +
				"defined"},
		"file, defaults": {Config{ConfigFile: garbage, WebhookGiven: true},
			"--authorization-config can not be specified"},
		"file and flags": {Config{ConfigFile: garbage, Webhook: Webhook{Version: "v1"}},
			"--authorization-config can not be specified"},
		"no mode": {Config{Modes: []string{"RBAC"}, Webhook: Webhook{ConfigFile: garbage}},
			"cannot specify --authorization-webhook-config-file without mode Webhook"},
		"broken webhook": {Config{Modes: []string{"Webhook"}, Webhook: Webhook{ConfigFile: garbage}}, garbage},
		"missing webhook": {Config{Modes: []string{"Webhook"}, Webhook: Webhook{ConfigFile: "/none"}},
			"--authorization-webhook-*: webhook default: /none"},
	} {
		tt.cfg.Objects = &objectstest.Store{}
		if _, err := New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, tt.want)
		}
	}
}

func FuzzDecodeConfig(f *testing.F) {
	f.Add([]byte(configHeader + "- {type: RBAC, name: rbac}\n"))
	f.Add([]byte(configHeader +
		webhookEntry("x", "/etc/passwd", "Deny", ", matchConditions: [{expression: 'request.user == \"x\"'}]")))
	f.Add([]byte("{"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, content []byte) {
		config, err := decodeConfig(content)
		if (config == nil) == (err == nil) || (config != nil && len(config.Authorizers) == 0) {
			t.Errorf("got %v, %v", config, err)
		}
	})
}
