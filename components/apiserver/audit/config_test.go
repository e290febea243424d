package audit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"

// TestErrors: each says which flag or which field is wrong.
func TestErrors(t *testing.T) {
	file := func(content string) func(*Config) {
		return func(c *Config) { c.PolicyFile = write(t, "policy.yaml", content) }
	}
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no file": {func(c *Config) { c.PolicyFile = "/none" },
			`--audit-policy-file: failed to read file path "/none"`},
		"no text":    {file(""), "unknown group version"},
		"no YAML":    {file("\tx"), "failed decoding"},
		"other kind": {file("apiVersion: v1\nkind: Pod\n"), "failed decoding"},
		"old version": {file("apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]\n"),
			"v1beta1"},
		"no rules": {file(head), "0 rules"},
		"no level": {file(head + "rules: [{users: [x]}]"), "rules[0].level: Required value"},
		"level": {file(head + "rules: [{level: Everything}]"),
			`rules[0].level: Unsupported value: "Everything"`},
		"stage": {file(head + "omitStages: [Soon]\nrules: [{level: None}]"),
			`omitStages[0]: Invalid value: "Soon"`},
		"both": {file(head + "rules: [{level: None, nonResourceURLs: [/x], resources: [{group: apps}]}]"),
			"rules cannot apply to both regular resources and non-resource URLs"},
		"URL": {file(head + "rules: [{level: None, nonResourceURLs: [x]}]"), "must begin with a '/'"},
		"group": {file(head + "rules: [{level: None, resources: [{group: apps/v1}]}]"),
			"rules[0].resources.group: Invalid value"},
		"format":  {func(c *Config) { c.Log.Path, c.Log.Format = "-", "xml" }, `--audit-log-format "xml"`},
		"age":     {func(c *Config) { c.Log.Path, c.Log.MaxAge = "-", -1 }, "--audit-log-maxage -1"},
		"backups": {func(c *Config) { c.Log.Path, c.Log.MaxBackups = "-", -1 }, "--audit-log-maxbackup -1"},
		"size":    {func(c *Config) { c.Log.Path, c.Log.MaxSize = "-", -1 }, "--audit-log-maxsize -1"},
		"version": {func(c *Config) { c.Log.Path, c.Log.Version = "-", "audit.k8s.io/v1alpha1" },
			"--audit-log-version"},
		"mode": {func(c *Config) { c.Log.Path, c.Log.Mode = "-", "sometimes" },
			"--audit-log-mode is sometimes"},
		"buffer": {func(c *Config) { c.Webhook.ConfigFile, c.Webhook.Batch.BufferSize = "x", 0 },
			"--audit-webhook-batch-buffer-size is 0"},
		"batch": {func(c *Config) { c.Webhook.ConfigFile, c.Webhook.Batch.MaxBatchSize = "x", 0 },
			"--audit-webhook-batch-max-size"},
		"rate": {func(c *Config) { c.Webhook.ConfigFile, c.Webhook.Batch.ThrottleQPS = "x", 0 },
			"--audit-webhook-batch-throttle-qps"},
		"burst": {func(c *Config) { c.Webhook.ConfigFile, c.Webhook.Batch.ThrottleBurst = "x", 0 },
			"--audit-webhook-batch-throttle-burst"},
		"event": {func(c *Config) { c.Log.Path, c.Log.Limits.MaxEventSize = "-", 0 },
			"--audit-log-truncate-max-event-size"},
		"batch to cut": {func(c *Config) { c.Log.Path, c.Log.Limits.MaxBatchSize = "-", 1 },
			"--audit-log-truncate-max-batch-size"},
		"no kubeconfig": {func(c *Config) { file(everything)(c); c.Webhook.ConfigFile = "/none" },
			"--audit-webhook-config-file"},
		"no such folder":  {func(c *Config) { file(everything)(c); c.Log.Path = "/proc/none/log" }, "--audit-log-path"},
		"zero, not usual": {func(c *Config) { *c = Config{Log: Log{Path: "-"}} }, "--audit-log-format"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Defaults()
			test.change(&c)
			if _, err := New(c, nil); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
}

const everything = head + "rules: [{level: RequestResponse}]\n"

// TestNothingToDo: without a policy, or without a place to write to, there is no auditor, and a nil one lets all pass.
func TestNothingToDo(t *testing.T) {
	for name, c := range map[string]Config{
		"zero":      {},
		"defaults":  Defaults(),
		"no place":  {PolicyFile: write(t, "p", everything)},
		"no policy": {Log: Defaults().Log, Webhook: Defaults().Webhook},
	} {
		a, err := New(c, nil)
		if err != nil || a != nil {
			t.Errorf("%s: got %v, %v", name, a, err)
		}
		a.Close()
		if err := a.Run(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestFlags: their names and defaults are upstream's.
func TestFlags(t *testing.T) {
	var c Config
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.AddFlags(fs)
	if c != Defaults() {
		t.Errorf("without flags: %+v", c)
	}
	for flag, want := range map[string]string{
		"audit-policy-file": "", "audit-log-path": "", "audit-log-format": "json",
		"audit-log-version": "audit.k8s.io/v1",
		"audit-log-maxsize": "100", "audit-log-maxage": "366", "audit-log-maxbackup": "100",
		"audit-log-compress": "false",
		"audit-log-mode":     "blocking", "audit-log-batch-buffer-size": "10000", "audit-log-batch-max-size": "1",
		"audit-log-batch-max-wait": "0s", "audit-log-batch-throttle-enable": "false",
		"audit-log-batch-throttle-qps":   "0",
		"audit-log-batch-throttle-burst": "0", "audit-log-truncate-enabled": "false",
		"audit-log-truncate-max-batch-size": "10485760", "audit-log-truncate-max-event-size": "102400",
		"audit-webhook-config-file": "", "audit-webhook-version": "audit.k8s.io/v1",
		"audit-webhook-initial-backoff":       "10s",
		"audit-webhook-batch-initial-backoff": "10s", "audit-webhook-mode": "batch",
		"audit-webhook-batch-buffer-size": "10000", "audit-webhook-batch-max-size": "400",
		"audit-webhook-batch-max-wait":        "30s",
		"audit-webhook-batch-throttle-enable": "true", "audit-webhook-batch-throttle-qps": "10",
		"audit-webhook-batch-throttle-burst": "15", "audit-webhook-truncate-enabled": "false",
		"audit-webhook-truncate-max-batch-size": "10485760", "audit-webhook-truncate-max-event-size": "102400",
	} {
		if f := fs.Lookup(flag); f == nil {
			t.Errorf("there is no --%s", flag)
		} else if f.DefValue != want {
			t.Errorf("--%s is %q, want %q", flag, f.DefValue, want)
		}
	}
}

// FuzzPolicy: whatever stands in the file, reading it gives an error or rules that can be asked.
func FuzzPolicy(f *testing.F) {
	for _, seed := range []string{
		"", everything, head, head +
			"rules: [{level: None, users: [a], verbs: [get]}, {level: Metadata, namespaces: ['']}]",
		head +
			"omitManagedFields: true\nomitStages: [RequestReceived]\nrules:\n- level: Request\n  userGroups: [g]\n  " +
			"resources: [{group: apps, resources: ['*/scale', 'deployments'], resourceNames: [x]}]\n  omitManagedFields: " +
			"false\n",
		head + "rules: [{level: None, nonResourceURLs: ['/a*', '*', '/']}]\nunknown: 1",
		`{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[{"level":"None"}]}`, "kind: Policy", "[]", "null",
		"a: &a [*a]",
	} {
		f.Add([]byte(seed))
	}
	asked := []authorizer.AttributesRecord{
		{User: &user.DefaultInfo{Name: "a", Groups: []string{"g"}}, Verb: "get", ResourceRequest: true,
			APIGroup: "apps", Resource: "deployments", Subresource: "scale", Namespace: "n", Name: "x"},
		{User: &user.DefaultInfo{Name: "b"}, Verb: "get", Path: "/a/b"},
		{Verb: "list", ResourceRequest: true, Resource: "pods"},
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		rules, err := policy.LoadPolicyFromBytes(content)
		if (rules == nil) == (err == nil) {
			t.Fatalf("got %v, %v", rules, err)
		}
		if err != nil {
			return
		}
		evaluator := policy.NewPolicyRuleEvaluator(rules)
		for _, a := range asked {
			if evaluator.EvaluatePolicyRule(a).Level == "" {
				t.Errorf("no level for %+v", a)
			}
		}
	})
}
