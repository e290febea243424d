package apiserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"

	"quintet.dev/quintet/components/apiserver/options"
)

// TestKeyIsLostWhileServing: once the file of keys no longer has the one that an object was encrypted with, it can
// neither be had nor deleted, whatever is in memory. What is written from then on can.
func TestKeyIsLostWhileServing(t *testing.T) {
	defer func(old time.Duration) { controller.EncryptionConfigFileChangePollDuration = old }(
		controller.EncryptionConfigFileChangePollDuration)
	controller.EncryptionConfigFileChangePollDuration = 20 * time.Millisecond
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	put := func(content string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	put(encryptAll)
	f := start(t, func(c *options.Config) { c.Encryption.File, c.Encryption.Reload = file, true })
	secrets := f.client(t).CoreV1().Secrets("default")
	create := func(name string, finalizers ...string) {
		t.Helper()
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}}
		if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("lost", "example.com/held")
	if _, err := secrets.Get(t.Context(), "lost", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	put(strings.NewReplacer("aesgcm", "aescbc", "YWFh", "YmJi").Replace(encryptAll))
	var err error
	for deadline := time.Now().Add(time.Minute); err == nil &&
		time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		_, err = secrets.Get(t.Context(), "lost", metav1.GetOptions{})
	}
	if !apierrors.IsInternalError(err) ||
		!strings.Contains(err.Error(), "Internal error occurred: no matching prefix found") {
		t.Errorf("get: %v", err)
	}
	if err := secrets.Delete(t.Context(), "lost", metav1.DeleteOptions{}); !apierrors.IsInternalError(err) {
		t.Errorf("delete: %v", err)
	}
	if list, err := secrets.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 ||
		list.Items[0].DeletionTimestamp != nil {
		t.Errorf("listed %v, %v", list, err)
	}
	create("next")
	if _, err := secrets.Get(t.Context(), "next", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if err := secrets.Delete(t.Context(), "next", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
