package namespace

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
)

// Discovery tells which resources have objects in namespaces.
type Discovery interface {
	ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error)
}

var podsResource = v1.SchemeGroupVersion.WithResource("pods")

// content deletes the objects in namespaces.
type content struct {
	discovery Discovery
	metadata  metadata.Interface
}

type resource struct {
	schema.GroupVersionResource
	canDeleteCollection bool
}

// remove deletes everything in namespace and returns what remains. Pods go first: what they
// may still use (config, secrets, network policies) stays until they have ended.
func (c *content) remove(ctx context.Context, namespace string,
	grace func(pod string) time.Duration) (*outcome, time.Duration) {
	o := &outcome{remaining: map[schema.GroupVersionResource]int{}, finalizers: map[string]int{}}
	resources := c.discover(o)
	var wait time.Duration
	for _, r := range resources {
		if r.GroupVersionResource == podsResource {
			wait = c.removeAll(ctx, namespace, r, grace, o)
		}
	}
	if o.left() || len(o.deletion) > 0 {
		o.pods = o.objects()
		clear(o.remaining)
		clear(o.finalizers)
		return o, wait
	}
	for _, r := range resources {
		if r.GroupVersionResource != podsResource {
			c.removeAll(ctx, namespace, r, nil, o)
		}
	}
	return o, 0
}

func (c *content) discover(o *outcome) []resource {
	lists, err := c.discovery.ServerPreferredNamespacedResources()
	if err != nil {
		var partial *discovery.ErrGroupDiscoveryFailed
		if !errors.As(err, &partial) {
			o.discovery = append(o.discovery, err.Error())
			return nil
		}
		o.discovery = append(o.discovery, fmt.Sprintf("Discovery failed for some groups, %d failing: %v",
			len(partial.Groups), err))
	}
	var found []resource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			o.parsing = append(o.parsing, err.Error())
			continue
		}
		for _, r := range list.APIResources {
			verbs := map[string]bool{}
			for _, verb := range r.Verbs {
				verbs[verb] = true
			}
			if verbs["list"] && verbs["delete"] {
				found = append(found, resource{gv.WithResource(r.Name), verbs["deletecollection"]})
			}
		}
	}
	return found
}

// removeAll returns how long the last of the objects may take to end, where grace knows.
func (c *content) removeAll(ctx context.Context, namespace string, r resource, grace func(string) time.Duration,
	o *outcome) time.Duration {
	client := c.metadata.Resource(r.GroupVersionResource).Namespace(namespace)
	problem := func(err error) {
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
			o.deletion = append(o.deletion, fmt.Sprintf("%s: %v", r.GroupVersionResource.String(), err))
		}
	}
	left, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		problem(err)
		return 0
	}
	if len(left.Items) == 0 {
		return 0
	}
	background := metav1.DeletePropagationBackground
	opts := metav1.DeleteOptions{PropagationPolicy: &background}
	if r.canDeleteCollection {
		problem(client.DeleteCollection(ctx, opts, metav1.ListOptions{}))
	} else {
		for _, item := range left.Items {
			problem(client.Delete(ctx, item.Name, opts))
		}
	}
	if left, err = client.List(ctx, metav1.ListOptions{}); err != nil {
		problem(err)
		return 0
	}
	var longest time.Duration
	for _, item := range left.Items {
		o.remaining[r.GroupVersionResource]++
		for _, finalizer := range item.Finalizers {
			o.finalizers[finalizer]++
		}
		if grace != nil {
			longest = max(longest, grace(item.Name))
		}
	}
	return longest
}
