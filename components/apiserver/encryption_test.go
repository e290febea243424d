package apiserver_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/encryption"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// The second of these begins to write with a new key.
const (
	encryptAll = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources: [
  {resources: [configmaps], providers: [{identity: {}}]},
  {resources: ['*.*'], providers: [{aesgcm: {keys: [{name: old, secret: YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=}]}}]}]`
	encryptAnew = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources: [
  {resources: [configmaps], providers: [{identity: {}}]},
  {resources: ['*.*'], providers: [{aesgcm: {keys: [
    {name: new, secret: YmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmI=},
    {name: old, secret: YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=}]}}]}]`
)

// lying tells how the value of a key lies in the store.
func lying(t *testing.T, store storage.Store, key string) string {
	t.Helper()
	kv, err := store.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	for _, form := range []string{"k8s:enc:aesgcm:v1:new:", "k8s:enc:aesgcm:v1:old:", "k8s\x00", "{"} {
		if bytes.HasPrefix(kv.Value, []byte(form)) {
			return form
		}
	}
	return string(kv.Value)
}

// TestEncryption: what lies in the store is encrypted by resource, custom ones too, and is written again with a new key
// when it is written at all.
func TestEncryption(t *testing.T) {
	store := memory.New(nil)
	t.Cleanup(func() { _ = store.Close() })
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	with := func(content string) func(*options.Config) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return func(c *options.Config) { c.Store, c.Encryption = store, encryption.Config{File: file} }
	}
	keys := map[string]string{
		"/registry/secrets/default/x":        "k8s:enc:aesgcm:v1:old:",
		"/registry/configmaps/default/x":     "k8s\x00",
		"/registry/services/specs/default/x": "k8s:enc:aesgcm:v1:old:",
		"/registry/ranges/servicenodeports":  "k8s\x00",
	}
	first := start(t, with(encryptAll))
	core := first.client(t).CoreV1()
	meta := metav1.ObjectMeta{Name: "x"}
	for _, err := range []error{
		second(core.Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: meta}, metav1.CreateOptions{})),
		second(core.ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta},
			metav1.CreateOptions{})),
		second(core.Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range keys {
		if got := lying(t, store, key); got != want {
			t.Errorf("%s lies there as %q, want %q", key, got, want)
		}
	}
	first.stop()

	core = start(t, with(encryptAnew)).client(t).CoreV1()
	before, err := core.Secrets("default").Get(t.Context(), "x", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	touch := func() *corev1.Secret {
		t.Helper()
		after, err := core.Secrets("default").Patch(t.Context(), "x", types.MergePatchType, []byte("{}"),
			metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return after
	}
	after := touch()
	if got := lying(t, store, "/registry/secrets/default/x"); got != "k8s:enc:aesgcm:v1:new:" ||
		after.ResourceVersion == before.ResourceVersion {
		t.Errorf("an update that changes nothing leaves it as %q", got)
	}
	if again := touch(); again.ResourceVersion != after.ResourceVersion {
		t.Error("it is written once more")
	}
}

func second[T any](_ T, err error) error { return err }

// TestKeyServiceHealth: a key management service that doesn't answer shows in /healthz and /readyz, and keeps the
// server from restarting.
func TestKeyServiceHealth(t *testing.T) {
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	content := `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources: [
  {resources: [secrets], providers: [{kms: {apiVersion: v2, name: k, endpoint: 'unix://` + file +
		`.sock', timeout: 10ms}}]}]`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	f := start(t, func(c *options.Config) { c.Encryption.File = file })
	client, err := rest.HTTPClientFor(f.as("admin"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/healthz": "[+]etcd ok\n[-]kms-providers failed", "/readyz": "[+]etcd-readiness ok\n[-]kms-providers failed",
		"/livez?verbose": "livez check passed", "/healthz/kms-providers": "kms",
	} {
		response, err := client.Get(f.as("admin").Host + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || !strings.Contains(string(body), want) ||
			(response.StatusCode == http.StatusOK) != strings.Contains(path, "livez") {
			t.Errorf("%s: %d %s, %v", path, response.StatusCode, body, err)
		}
	}
	_, err = f.client(t).CoreV1().Secrets("default").Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
	if !apierrors.IsInternalError(err) || strings.Contains(err.Error(), "/registry/") {
		t.Errorf("a Secret that can't be encrypted: %v", err)
	}
}
