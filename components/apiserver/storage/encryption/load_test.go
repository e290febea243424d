package encryption

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"
	"k8s.io/apiserver/pkg/storage/value"
)

// TestErrors: each says what is wrong, and in which file or flag.
func TestErrors(t *testing.T) {
	one := func(provider string) string {
		return head + "- resources: [secrets]\n  providers: [" + provider + "]\n"
	}
	for name, test := range map[string]struct{ content, want string }{
		"no text":       {"", "is empty"},
		"no YAML":       {"\t", "error while parsing file: error decoding encryption provider configuration file"},
		"other kind":    {"apiVersion: v1\nkind: Pod\n", `no kind "Pod" is registered`},
		"unknown field": {head + "- resources: [secrets]\n  provider: []\n", `unknown field "resources[0].provider"`},
		"nothing":       {head[:strings.Index(head, "resources")], "resources: Required value"},
		"no resources":  {head + "- providers: [{identity: {}}]\n", "resources[0].resources: Required value"},
		"no providers":  {head + "- resources: [secrets]\n", "resources[0].providers: Required value"},
		"two in one": {one("{identity: {}, aescbc: {keys: [{name: a, secret: " + key1 + "}]}}"),
			"more than one provider specified in a single element"},
		"no provider": {one("{}"), "provider does not contain any of the expected providers"},
		"no key":      {one("{aescbc: {keys: []}}"), "keys: Required value"},
		"no name":     {one("{aescbc: {keys: [{secret: " + key1 + "}]}}"), "name: Required value"},
		"no secret":   {one("{aescbc: {keys: [{name: a}]}}"), "secret: Required value"},
		"no base64":   {one("{aescbc: {keys: [{name: a, secret: '!'}]}}"), "secrets must be base64 encoded"},
		"length": {one("{secretbox: {keys: [{name: a, secret: YWE=}]}}"),
			"secret is not of the expected length, got 2, expected one of [32]"},
		"wildcard": {head + "- resources: ['*']\n  providers: [{identity: {}}]\n",
			"use '*.' to encrypt all the resources from core API group"},
		"masked": {head +
			"- resources: ['*.*']\n  providers: [{identity: {}}]\n- resources: [secrets]\n  providers: [{identity: {}}]\n",
			`resource "secrets" is masked by earlier rule`},
		"events": {head + "- resources: [events.events.k8s.io]\n  providers: [{identity: {}}]\n",
			"Use 'events' instead"},
		"KMS v1": {one("{kms: {name: k, endpoint: 'unix:///none', cachesize: 1}}"),
			"KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead."},
		"KMS version": {one("{kms: {apiVersion: v3, name: k, endpoint: 'unix:///none'}}"),
			"only v1 and v2 are supported"},
		"KMS, no address": {one("{kms: {apiVersion: v2, name: k}}"), "endpoint: Invalid value"},
		"KMS timeout": {one("{kms: {apiVersion: v2, name: k, endpoint: 'unix:///none', timeout: -1s}}"),
			"timeout: Invalid value"},
		"KMS cache": {one("{kms: {apiVersion: v2, name: k, endpoint: 'unix:///none', cachesize: 1}}"),
			"cachesize is not supported in v2"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Load(Config{File: file})
			if err == nil || !strings.Contains(err.Error(), test.want) ||
				!strings.Contains(err.Error(), "--encryption-provider-config "+file) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
	if _, err := Load(Config{Reload: true}); err == nil ||
		!strings.Contains(err.Error(), "--encryption-provider-config-automatic-reload") {
		t.Errorf("reload of nothing: %v", err)
	}
	if _, err := Load(Config{File: "/none"}); err == nil || !strings.Contains(err.Error(), "/none") {
		t.Errorf("no file: %v", err)
	}
}

// writesWith tells how the transformers write now.
func writesWith(t *testing.T, transformers value.ResourceTransformers) string {
	t.Helper()
	out, err := transformers.TransformerForResource(schema.GroupResource{Resource: "secrets"}).
		TransformToStorage(t.Context(), []byte("x"), value.DefaultContext("k"))
	if err != nil {
		t.Fatal(err)
	}
	return form(out)
}

// TestReload: the file is read again when it changes, and one with a fault changes nothing.
func TestReload(t *testing.T) {
	defer func(old time.Duration) { controller.EncryptionConfigFileChangePollDuration = old }(
		controller.EncryptionConfigFileChangePollDuration)
	controller.EncryptionConfigFileChangePollDuration = 5 * time.Millisecond
	file := filepath.Join(t.TempDir(), "config.yaml")
	put := func(content string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	put(first)
	keys := open(t, Config{File: file, Reload: true})
	if checks := keys.Checks(); len(checks) != 1 || checks[0].Name != "kms-providers" || checks[0].Probe(nil) != nil {
		t.Errorf("checks: %v", checks)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- keys.Run(ctx) }()
	transformers := keys.Transformers()
	if got := writesWith(t, transformers); got != "k8s:enc:aesgcm:v1:one:" {
		t.Errorf("at first: %s", got)
	}
	put("nonsense")
	put(both)
	for deadline := time.Now().Add(20 * time.Second); writesWith(t, transformers) != "k8s:enc:aescbc:v1:two:"; {
		if time.Now().After(deadline) {
			t.Fatalf("still %s", writesWith(t, transformers))
		}
		time.Sleep(time.Millisecond)
	}
	<-keys.ctx.Done() // the services of the first file are left
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// FuzzLoad: whatever stands in the file, reading it gives an error, or keys with which values go there and back.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{"", head, first, both, second,
		head + "- resources: [secrets, '*.apps']\n  providers: [{identity: {}}]\n",
		head + "- resources: [secrets]\n  providers: [{secretbox: {keys: [{name: 'a:b', secret: " + key1 + "}]}}]\n",
		"[]", "null", "{a: [1"} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		if strings.Contains(strings.ToLower(string(content)), "kms") {
			t.Skip("it may name a socket of this machine")
		}
		file := filepath.Join(dir, "config.yaml")
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := Load(Config{File: file})
		if err != nil {
			return
		}
		defer keys.Close()
		for _, resource := range []schema.GroupResource{{Resource: "secrets"},
			{Group: "apps", Resource: "deployments"}} {
			transformer, at := keys.Transformers().TransformerForResource(resource), value.DefaultContext("/k")
			sealed, err := transformer.TransformToStorage(t.Context(), []byte("plain"), at)
			if err != nil {
				t.Fatalf("sealing: %v", err)
			}
			if plain, stale, err := transformer.TransformFromStorage(t.Context(), sealed, at); err != nil || stale ||
				string(plain) != "plain" {
				t.Fatalf("opening: %q, %v, %v", plain, stale, err)
			}
		}
	})
}
