package apiserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver"
	"quintet.dev/quintet/components/apiserver/audit"
	"quintet.dev/quintet/components/apiserver/options"
)

// TestBrokenFiles: a file that can't be used is named, and so is what it is for.
func TestBrokenFiles(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("-----BEGIN NOTHING-----\n: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for name, c := range map[string]struct {
		change func(*options.Config, string)
		want   string
	}{
		"serving certificate": {func(c *options.Config, f string) { c.TLSCertFile, c.TLSKeyFile = f, f },
			"--tls-cert-file"},
		"client CA": {func(c *options.Config, f string) { c.ClientCAFile = f }, "--client-ca-file"},
		"request header CA": {func(c *options.Config, f string) { c.RequestHeader.ClientCAFile = f },
			"--requestheader-client-ca-file"},
		"kubelet CA": {func(c *options.Config, f string) { c.KubeletCertificateAuthority = f },
			"--kubelet-certificate-authority"},
		"kubelet client": {
			func(c *options.Config, f string) { c.KubeletClientCertificate, c.KubeletClientKey = f, f },
			"--kubelet-client-certificate"},
		"proxy client": {func(c *options.Config, f string) { c.ProxyClientCert, c.ProxyClientKey = f, f },
			"--proxy-client-cert-file"},
		"service account key": {func(c *options.Config, f string) { c.ServiceAccountKeyFiles = []string{f} },
			"--service-account-key-file"},
		"service account signer": {func(c *options.Config, f string) { c.ServiceAccountSigningKey = f },
			"--service-account-signing-key-file"},
		"etcd's CA": {func(c *options.Config, f string) {
			c.Storage, c.EtcdServers, c.EtcdCAFile = options.StorageEtcd, []string{"https://127.0.0.1:1"}, f
		}, "--etcd-cafile"},
		"etcd client": {func(c *options.Config, f string) {
			c.Storage, c.EtcdServers, c.EtcdCertFile, c.EtcdKeyFile = options.StorageEtcd,
				[]string{"https://127.0.0.1:1"}, f, f
		}, "--etcd-certfile"},
		"tokens": {func(c *options.Config, f string) { c.TokenAuthFile = f }, "--token-auth-file"},
		"authentication": {func(c *options.Config, f string) { c.AuthenticationConfigFile = f },
			"--authentication-config"},
		"authorization": {func(c *options.Config, f string) {
			c.AuthorizationConfigFile, c.AuthorizationModes = f,
				nil
		}, "--authorization-config"},
		"admission": {func(c *options.Config, f string) { c.AdmissionFile = f },
			"--admission-control-config-file"},
		"audit policy": {func(c *options.Config, f string) {
			c.Audit = audit.Defaults()
			c.Audit.PolicyFile, c.Audit.Log.Path = f, "-"
		}, "--audit-policy-file"},
		"encryption": {func(c *options.Config, f string) { c.Encryption.File = f }, "--encryption-provider-config"},
		"tracing":    {func(c *options.Config, f string) { c.TracingConfigFile = f }, "--tracing-config-file"},
	} {
		for kind, file := range map[string]string{"garbage": garbage, "missing": missing} {
			config := options.Config{Storage: options.StorageMemory, AuthorizationModes: []string{"RBAC"}}
			c.change(&config, file)
			_, err := apiserver.New(config)
			if err == nil {
				t.Fatalf("%s, %s: it was taken", name, kind)
			}
			if !strings.Contains(err.Error(), c.want) || file == missing && !strings.Contains(err.Error(), file) {
				t.Errorf("%s, %s: %v, which doesn't tell %s and the file", name, kind, err, c.want)
			}
		}
	}
}

// TestBadQueries: what can't be understood of a list's query is refused in Kubernetes' words.
func TestBadQueries(t *testing.T) {
	f := start(t)
	for query, want := range map[string]string{
		"resourceVersionMatch=Exact": "422 ListOptions.meta.k8s.io \"\" is invalid: " +
			"resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
		"resourceVersion=0&resourceVersionMatch=Exact": "422 ListOptions.meta.k8s.io \"\" is invalid: " +
			"resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
		"timeoutSeconds=x":          "400 strconv.ParseInt: parsing \"x\": invalid syntax",
		"labelSelector=a%20in%20(b": "400 unable to parse requirement: found '', expected: ',' or ')'",
		"continue=zzz": "400 invalid continue token: continue key is not valid: invalid " +
			"character 'Ï' looking for beginning of value",
		"resourceVersion=x": "400 invalid resource version: resourceVersion: Invalid value: " +
			"\"x\": strconv.ParseUint: parsing \"x\": invalid syntax",
		"watch=1&resourceVersion=x": "500 resourceVersion: Invalid value: \"x\": strconv.ParseUint: " +
			"parsing \"x\": invalid syntax",
		"sendInitialEvents=true": "422 ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: " +
			"Forbidden: sendInitialEvents is forbidden for list",
		"labelSelector=a%3D%3Db%3D%3Dc": "400 found '==', expected: ',' or 'end of string'",
		"fieldSelector=a":               "400 invalid selector: 'a'; can't understand 'a'",
		"limit=x":                       "400 strconv.ParseInt: parsing \"x\": invalid syntax",
		"resourceVersion=5&continue=x": "400 invalid continue token: continue key is not valid: illegal " +
			"base64 data at input byte 0",
	} {
		code, text := f.sent(t, http.MethodGet, "/api/v1/namespaces/default/configmaps?"+query, "", "")
		var status metav1.Status
		if err := json.Unmarshal([]byte(text), &status); err != nil || int(status.Code) != code {
			t.Errorf("%s: %d %s", query, code, text)
		} else if got := fmt.Sprintf("%d %s", code, status.Message); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}
