package apiserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quintet.dev/quintet/components/apiserver"
	"quintet.dev/quintet/components/apiserver/auditing"
)

// TestBrokenFiles: a file that can't be used is named, and so is what it is for.
func TestBrokenFiles(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("-----BEGIN NOTHING-----\n: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for name, c := range map[string]struct {
		change func(*apiserver.Config, string)
		want   string
	}{
		"serving certificate":    {func(c *apiserver.Config, f string) { c.TLSCertFile, c.TLSKeyFile = f, f }, "--tls-cert-file"},
		"client CA":              {func(c *apiserver.Config, f string) { c.ClientCAFile = f }, "--client-ca-file"},
		"request header CA":      {func(c *apiserver.Config, f string) { c.RequestHeader.ClientCAFile = f }, "--requestheader-client-ca-file"},
		"kubelet CA":             {func(c *apiserver.Config, f string) { c.KubeletCertificateAuthority = f }, "--kubelet-certificate-authority"},
		"kubelet client":         {func(c *apiserver.Config, f string) { c.KubeletClientCertificate, c.KubeletClientKey = f, f }, "--kubelet-client-certificate"},
		"proxy client":           {func(c *apiserver.Config, f string) { c.ProxyClientCert, c.ProxyClientKey = f, f }, "--proxy-client-cert-file"},
		"service account key":    {func(c *apiserver.Config, f string) { c.ServiceAccountKeyFiles = []string{f} }, "--service-account-key-file"},
		"service account signer": {func(c *apiserver.Config, f string) { c.ServiceAccountSigningKey = f }, "--service-account-signing-key-file"},
		"etcd's CA": {func(c *apiserver.Config, f string) {
			c.Storage, c.EtcdServers, c.EtcdCAFile = apiserver.StorageEtcd, []string{"https://127.0.0.1:1"}, f
		}, "--etcd-cafile"},
		"etcd client": {func(c *apiserver.Config, f string) {
			c.Storage, c.EtcdServers, c.EtcdCertFile, c.EtcdKeyFile = apiserver.StorageEtcd, []string{"https://127.0.0.1:1"}, f, f
		}, "--etcd-certfile"},
		"tokens":         {func(c *apiserver.Config, f string) { c.TokenAuthFile = f }, "--token-auth-file"},
		"authentication": {func(c *apiserver.Config, f string) { c.AuthenticationConfigFile = f }, "--authentication-config"},
		"authorization":  {func(c *apiserver.Config, f string) { c.AuthorizationConfigFile, c.AuthorizationModes = f, nil }, "--authorization-config"},
		"admission":      {func(c *apiserver.Config, f string) { c.AdmissionFile = f }, "--admission-control-config-file"},
		"audit policy": {func(c *apiserver.Config, f string) {
			c.Audit = auditing.Defaults()
			c.Audit.PolicyFile, c.Audit.Log.Path = f, "-"
		}, "--audit-policy-file"},
		"encryption": {func(c *apiserver.Config, f string) { c.Encryption.File = f }, "--encryption-provider-config"},
		"tracing":    {func(c *apiserver.Config, f string) { c.TracingConfigFile = f }, "--tracing-config-file"},
	} {
		for kind, file := range map[string]string{"garbage": garbage, "missing": missing} {
			config := apiserver.Config{Storage: apiserver.StorageMemory, AuthorizationModes: []string{"RBAC"}}
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
