package e2e

import (
	"context"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/cluster"
)

// TestSnapshots: a cluster of containers is saved, goes on in a second one beside it with pods that run there, and is
// put back.
func TestSnapshots(t *testing.T) {
	w := start(t, cluster.WithNodes(1))
	w.createDeployment("kept", 2)
	w.waitReady("kept", 2)
	snapshot, err := w.Snapshot(t.Context())
	w.must(err, "take a snapshot")
	file := filepath.Join(t.TempDir(), "snapshot.tar")
	w.must(snapshot.Save(file), "save it")
	loaded, err := cluster.LoadSnapshot(file)
	w.must(err, "load it")

	second, err := loaded.Start(t.Context())
	w.must(err, "start a cluster from it")
	t.Cleanup(func() { w.must(second.Stop(context.Background()), "stop the second cluster") })
	w2 := see(t, second)
	w2.waitReady("kept", 2)
	w2.createDeployment("new", 1)
	w2.waitReady("new", 1)
	w2.Eventually(w2.containersOn(second.Node(1), "kept")).ShouldNot(BeEmpty(), "containers on the node of the second")

	w.createDeployment("undone", 1)
	w.waitReady("undone", 1)
	w.must(w.Restore(t.Context(), loaded), "put the first back")
	list, err := w.client.AppsV1().Deployments(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	w.must(err, "list deployments")
	w.Expect(list.Items).To(HaveLen(1), "only what the snapshot had")
	w.waitReady("kept", 2)
	w.Eventually(w.containersOn(w.Node(1), "undone")).Should(BeEmpty(), "containers that the snapshot did not have")
	_, err = w.client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "after"}}, metav1.CreateOptions{})
	w.must(err, "write to the cluster that was put back")
}
