package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestExport: logs and objects are there, events among them, and no secret.
func TestExport(t *testing.T) {
	c, client := started(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	createPod(ctx, t, client, "shown")
	phase(ctx, t, client, "shown", corev1.PodRunning)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "hidden"}, StringData: map[string]string{"k": "v"}}
	if _, err := client.CoreV1().Secrets("default").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err := until(ctx, func(ctx context.Context) error {
		events, err := client.EventsV1().Events("default").List(ctx, metav1.ListOptions{})
		if err == nil && len(events.Items) == 0 {
			err = context.DeadlineExceeded
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "new")
	if err := c.Export(ctx, dir); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"logs/apiserver-0.log": "", "logs/node-1.log": "", "objects/default/pods.yaml": "name: shown",
		"objects/_cluster/nodes.yaml": "name: node-1", "objects/default/events.events.k8s.io.yaml": "name: shown",
		"objects/kube-system/serviceaccounts.yaml": "kind: ServiceAccountList",
	} {
		content, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || !strings.Contains(string(content), want) {
			t.Errorf("%s: %v; want %q in\n%s", file, err, want, content)
		}
	}
	found, err := filepath.Glob(filepath.Join(dir, "objects", "*", "secrets.yaml"))
	if err != nil || len(found) > 0 {
		t.Errorf("secrets: %v, %v", found, err)
	}
}
