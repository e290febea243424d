package robustness

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"

	"quintet.dev/quintet/checks"
)

// truth is what happened to the ConfigMaps of the namespace, as etcd itself tells it.
type truth struct {
	mu      sync.Mutex
	events  []checks.Event
	reached int64
}

const prefix = "/registry/configmaps/" + namespace + "/"

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// follow returns when ctx ends. etcd must not be compacted beyond reached.
func (h *truth) follow(ctx context.Context, etcd *clientv3.Client, from int64) error {
	for batch := range etcd.Watch(clientv3.WithRequireLeader(ctx), prefix, clientv3.WithPrefix(),
		clientv3.WithRev(from), clientv3.WithProgressNotify(), clientv3.WithPrevKV()) {
		if err := batch.Err(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("following etcd: %w", err)
		}
		h.mu.Lock()
		for _, e := range batch.Events {
			kind, content := watch.Modified, e.Kv.Value
			switch {
			case e.Type == clientv3.EventTypeDelete:
				kind, content = watch.Deleted, e.PrevKv.Value
			case e.IsCreate():
				kind = watch.Added
			}
			obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(content, nil, nil)
			if err != nil {
				h.mu.Unlock()
				return fmt.Errorf("%s in etcd: %w", e.Kv.Key, err)
			}
			object := obj.(*corev1.ConfigMap)
			now := checks.Event{Type: kind, UID: object.UID, Name: object.Namespace + "/" + object.Name,
				Version: e.Kv.ModRevision, Value: object.Data[dataKey]}
			h.events = append(h.events, now)
		}
		h.reached = max(h.reached, batch.Header.Revision)
		h.mu.Unlock()
	}
	return nil
}

// watchers are of the ConfigMaps, each through all API servers, in watches that end soon.
func (s *site) watchers(t *testing.T) []*checks.Watcher {
	t.Helper()
	var all []*checks.Watcher
	for range watchers {
		w := &checks.Watcher{Last: 2 * time.Second, Value: func(obj *unstructured.Unstructured) string {
			value, _, _ := unstructured.NestedString(obj.Object, "data", dataKey)
			return value
		}}
		for server := range s.servers {
			client, err := dynamic.NewForConfig(s.config(server))
			if err != nil {
				t.Fatal(err)
			}
			w.Clients = append(w.Clients, client.Resource(configMaps).Namespace(namespace))
		}
		all = append(all, w)
	}
	return all
}
