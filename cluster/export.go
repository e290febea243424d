package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// clusterScope is the folder of objects without a namespace; no namespace has such a name.
const clusterScope = "_cluster"

// Export writes what a person needs to find out why something failed into a directory, which is made: logs/MEMBER.log,
// and objects/NAMESPACE/RESOURCE.GROUP.yaml with all objects, events among them; those without a namespace are in
// _cluster. Secrets are left out. What can't be read is told by the error, and the rest is written all the same.
func (c *Cluster) Export(ctx context.Context, dir string) error {
	logs := filepath.Join(dir, "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	var errs []error
	for _, m := range c.Members() {
		errs = append(errs, m.exportLog(ctx, filepath.Join(logs, m.name+".log")))
	}
	return errors.Join(append(errs, c.exportObjects(ctx, filepath.Join(dir, "objects")))...)
}

func (m *Member) exportLog(ctx context.Context, file string) (err error) {
	to, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	return m.Logs(ctx, false, to)
}

func (c *Cluster) exportObjects(ctx context.Context, dir string) error {
	served, err := discovery.NewDiscoveryClientForConfig(c.rest)
	if err != nil {
		return err
	}
	quiet := c.RESTConfig()
	quiet.WarningHandler = rest.NoWarnings{} // of versions that are deprecated: all is read
	client, err := dynamic.NewForConfig(quiet)
	if err != nil {
		return err
	}
	lists, err := served.ServerPreferredResources()
	if len(lists) == 0 {
		return fmt.Errorf("export objects: %w", err)
	}
	errs := []error{err} // of some groups
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for _, r := range list.APIResources {
			resource := version.WithResource(r.Name)
			if !exported(resource, r.Verbs) {
				continue
			}
			if err := exportResource(ctx, client, resource, dir); err != nil {
				errs = append(errs, fmt.Errorf("export %s: %w", resource.GroupResource(), err))
			}
		}
	}
	return errors.Join(errs...)
}

// exported tells whether a resource is of use: Secrets are not to be shown, and events of the core group are those of
// events.k8s.io.
func exported(r schema.GroupVersionResource, verbs metav1.Verbs) bool {
	secrets := r.Group == "" && r.Resource == "secrets"
	events := r.Group == "" && r.Resource == "events"
	return slices.Contains(verbs, "list") && !strings.Contains(r.Resource, "/") && !secrets && !events
}

func exportResource(ctx context.Context, client dynamic.Interface, r schema.GroupVersionResource, dir string) error {
	list, err := client.Resource(r).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil // it is served no more
	}
	if err != nil {
		return err
	}
	byNamespace := map[string][]unstructured.Unstructured{}
	for _, item := range list.Items {
		namespace := item.GetNamespace()
		if namespace == "" {
			namespace = clusterScope
		}
		byNamespace[namespace] = append(byNamespace[namespace], item)
	}
	for namespace, items := range byNamespace {
		folder := filepath.Join(dir, namespace)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		part := &unstructured.UnstructuredList{Object: list.Object, Items: items}
		content, err := yaml.Marshal(part.UnstructuredContent())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, r.GroupResource().String()+".yaml"), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
