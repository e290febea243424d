package manifests

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// manager owns the fields that are applied.
const manager = "quintet"

// poll is how often what is waited for is looked at.
const poll = 20 * time.Millisecond

// IsCRD tells whether an object defines a resource.
func IsCRD(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == apiextensions.Kind("CustomResourceDefinition")
}

// Apply applies objects, and returns when all are stored and all definitions of resources among them are established.
// Objects of a namespaced kind that name no namespace are those of the namespace default. Kinds that are not served yet
// are waited for until ctx ends.
func Apply(ctx context.Context, config *rest.Config, objects []*unstructured.Unstructured) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	served, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	a := applier{client, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(served))}
	for _, stage := range stages(objects) {
		for _, o := range stage {
			if err := a.apply(ctx, o); err != nil {
				return fmt.Errorf("apply %s: %w", describe(o), err)
			}
		}
		for _, o := range stage {
			if !IsCRD(o) {
				continue
			}
			if err := a.established(ctx, o); err != nil {
				return fmt.Errorf("wait for %s: %w", describe(o), err)
			}
		}
	}
	return nil
}

// stages are the objects in the order in which they are applied.
func stages(objects []*unstructured.Unstructured) [3][]*unstructured.Unstructured {
	var stages [3][]*unstructured.Unstructured
	for _, o := range objects {
		stage := 2
		switch {
		case IsCRD(o):
			stage = 0
		case o.GetAPIVersion() == "v1" && o.GetKind() == "Namespace":
			stage = 1
		}
		stages[stage] = append(stages[stage], o)
	}
	return stages
}

func describe(o *unstructured.Unstructured) string {
	name := o.GetName()
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	return fmt.Sprintf("%s (%s) %s", o.GetKind(), o.GetAPIVersion(), name)
}

type applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func (a applier) apply(ctx context.Context, o *unstructured.Unstructured) error {
	resource, err := a.resource(ctx, o)
	if err != nil {
		return err
	}
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	force := true
	_, err = resource.Patch(ctx, o.GetName(), types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: manager, Force: &force})
	return err
}

// resource finds where objects of a kind are served; a kind may be served a moment after its definition is established.
func (a applier) resource(ctx context.Context, o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := o.GroupVersionKind()
	for {
		mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		switch {
		case err == nil && mapping.Scope.Name() == meta.RESTScopeNameRoot:
			return a.client.Resource(mapping.Resource), nil
		case err == nil:
			if o.GetNamespace() == "" {
				o.SetNamespace(metav1.NamespaceDefault)
			}
			return a.client.Resource(mapping.Resource).Namespace(o.GetNamespace()), nil
		case !meta.IsNoMatchError(err) && !discovery.IsGroupDiscoveryFailedError(err):
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(poll):
			a.mapper.Reset()
		}
	}
}

// established waits until a resource is served, and returns at once if its names are refused.
func (a applier) established(ctx context.Context, o *unstructured.Unstructured) error {
	definitions := a.client.Resource(apiextensions.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	for {
		var crd apiextensions.CustomResourceDefinition
		got, err := definitions.Get(ctx, o.GetName(), metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err == nil {
			if err = runtime.DefaultUnstructuredConverter.FromUnstructured(got.Object, &crd); err != nil {
				return err
			}
		}
		for _, c := range crd.Status.Conditions {
			switch {
			case c.Type == apiextensions.Established && c.Status == apiextensions.ConditionTrue:
				return nil
			case c.Type == apiextensions.NamesAccepted && c.Status == apiextensions.ConditionFalse:
				return fmt.Errorf("its names are not accepted: %s: %s", c.Reason, c.Message)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is not established: %w", ctx.Err())
		case <-time.After(poll):
		}
	}
}
