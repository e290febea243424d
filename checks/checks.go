// Package checks finds what no fault may cause: histories that are not linearizable, acknowledged writes that are gone,
// watches that lose, repeat or reorder events, and informers that differ from a list. It works on any cluster, by the
// configuration of a client, and beside faults of any kind:
//
//   - History and Acknowledged note what the clients of a configuration do (Record), for Linearizable and Lost;
//   - Watcher and Informers follow a resource themselves, and are compared with what an undisturbed client sees.
//
// A check that fails shows a bug of the API server, of a proxy or store behind it, or of the client that is recorded.
// What programs make of right answers is theirs to check: compare what they hold with a list (Equal).
package checks

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Equal compares what an informer or another cache holds with a list, when all is quiet: the same objects at the same
// versions. It returns the first difference.
func Equal(cached, listed []metav1.Object) error {
	has := map[string]metav1.Object{}
	for _, obj := range cached {
		has[name(obj)] = obj
	}
	for _, obj := range listed {
		own, ok := has[name(obj)]
		if !ok {
			return fmt.Errorf("the cache lacks %s at %s", name(obj), obj.GetResourceVersion())
		}
		if own.GetResourceVersion() != obj.GetResourceVersion() {
			return fmt.Errorf("the cache has %s at %s, the list at %s", name(obj), own.GetResourceVersion(),
				obj.GetResourceVersion())
		}
		delete(has, name(obj))
	}
	for _, obj := range has {
		return fmt.Errorf("the cache has %s at %s, which is gone", name(obj), obj.GetResourceVersion())
	}
	return nil
}

// List lists the metadata of a resource in all namespaces, for Equal.
func List(ctx context.Context, config *rest.Config, resource schema.GroupVersionResource) ([]metav1.Object, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	list, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := make([]metav1.Object, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

func versionOf(obj metav1.Object) (int64, error) {
	version, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resource version of %s: %w", name(obj), err)
	}
	return version, nil
}

func name(obj metav1.Object) string {
	if obj.GetNamespace() == "" {
		return obj.GetName()
	}
	return obj.GetNamespace() + "/" + obj.GetName()
}
