package cluster

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quintet.dev/quintet/cluster/internal/manifests"
	"quintet.dev/quintet/why"
)

// WithCRDs installs the CustomResourceDefinitions of files, and of those of directories that end with .yaml, .yml or
// .json. Start returns when all are established.
func WithCRDs(paths ...string) Option {
	return func(c *config) error {
		objects, err := readAll(paths)
		if err != nil {
			return fmt.Errorf("CRDs: %w", err)
		}
		for _, o := range objects {
			if !manifests.IsCRD(o) {
				return fmt.Errorf("CRDs: %s %s is none; WithManifests takes all kinds", o.GetKind(), o.GetName())
			}
		}
		c.manifests = append(c.manifests, objects...)
		return nil
	}
}

// WithManifests applies (https://kubernetes.io/docs/reference/using-api/server-side-apply/) the objects in files, and
// in those of directories that end with .yaml, .yml or .json, when the nodes are ready. Definitions of resources are
// applied first and waited for, then namespaces, then the rest in its order. WaitForManifests waits until all are
// ready.
func WithManifests(paths ...string) Option {
	return func(c *config) error {
		objects, err := readAll(paths)
		if err != nil {
			return fmt.Errorf("manifests: %w", err)
		}
		c.manifests = append(c.manifests, objects...)
		return nil
	}
}

// WithManifestContent is WithManifests for content that is in no file: documents of YAML or JSON.
func WithManifestContent(contents ...[]byte) Option {
	return func(c *config) error {
		for i, content := range contents {
			objects, err := manifests.Decode(fmt.Sprintf("content %d", i+1), content)
			if err != nil {
				return fmt.Errorf("manifests: %w", err)
			}
			c.manifests = append(c.manifests, objects...)
		}
		return nil
	}
}

// WaitForManifests has Start return when all objects of WithManifests are ready, as package why has it: pods run,
// Deployments are rolled out, Jobs have ended.
func WaitForManifests() Option {
	return func(c *config) error { c.waitManifests = true; return nil }
}

func (c *config) checkManifests() error {
	if c.waitManifests && len(c.manifests) == 0 {
		return errors.New("wait for manifests: there are none; add WithManifests (`quintet up --manifest FILE`)")
	}
	return nil
}

func readAll(paths []string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		more, err := manifests.Read(path)
		if err != nil {
			return nil, err
		}
		objects = append(objects, more...)
	}
	return objects, nil
}

// waitersAtOnce bounds how many objects are waited for at a time: each is read, with what it depends on, again and
// again.
const waitersAtOnce = 8

func (s *start) applyManifests(ctx context.Context) error {
	c := s.cluster
	if err := manifests.Apply(ctx, c.rest, c.config.manifests); err != nil || !c.config.waitManifests {
		return err
	}
	reader, err := client.New(c.RESTConfig(), client.Options{})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(waitersAtOnce)
	for _, o := range c.config.manifests {
		group.Go(func() error { return why.WaitReady(ctx, reader, typed(reader.Scheme(), o)) })
	}
	return group.Wait()
}

// typed is an object of the same name of the kind's Go type, or of none for a kind without.
func typed(scheme *runtime.Scheme, o *unstructured.Unstructured) client.Object {
	if made, err := scheme.New(o.GroupVersionKind()); err == nil {
		if object, ok := made.(client.Object); ok {
			object.SetName(o.GetName())
			object.SetNamespace(o.GetNamespace())
			return object
		}
	}
	return o.DeepCopy()
}
