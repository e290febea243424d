package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quintet.dev/quintet/why"
)

// examined are the kinds that why looks through when it is given no object.
var examined = []schema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "apps", Version: "v1", Kind: "DaemonSet"}, {Group: "batch", Version: "v1", Kind: "CronJob"},
	{Group: "batch", Version: "v1", Kind: "Job"}, {Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "PersistentVolumeClaim"}, {Version: "v1", Kind: "Pod"},
}

type whyFlags struct {
	kubeconfig, namespace, output string
	timeout                       time.Duration
}

func (a *app) why() *cobra.Command {
	var f whyFlags
	cmd := &cobra.Command{
		Use:   "why [KIND NAME | KIND/NAME]",
		Short: "Tell why an object is pending, not ready, failed or not gone",
		Long: `Tell why an object is pending, not ready, failed or not gone, down to the cause, and what would help.

Without an object, all of the namespace that are not well are explained. Any cluster can be asked. The exit code is 0
whatever the answer, and 1 if there is none, as in a namespace that does not exist; --output json has the state for
programs.`,
		Example: `  quintet why deployment web
  quintet why pvc/data --namespace shop
  quintet why --namespace shop
  quintet why pod/web-0 --kubeconfig other.conf --output json`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, config, err := a.target(cmd.Context(), f.kubeconfig)
			if err != nil {
				return err
			}
			config.Timeout = f.timeout
			return a.whySilent(cmd.Context(), a.runWhy(cmd.Context(), config, f, args), name, config)
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&f.namespace, "namespace", "n", "default", "namespace of the object")
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file of another cluster")
	fs.DurationVar(&f.timeout, "timeout", 10*time.Second, "how long to wait for each answer of the API server")
	outputFlag(cmd, &f.output)
	return cmd
}

func (a *app) runWhy(ctx context.Context, config *rest.Config, f whyFlags, args []string) error {
	c, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return a.whyAll(ctx, c, f)
	}
	obj, err := named(config, f.namespace, args)
	if err != nil {
		return err
	}
	answer, err := why.Of(ctx, c, obj)
	if err != nil {
		return err
	}
	return a.print(f.output, answer, func() error {
		_, err := fmt.Fprintln(a.out, answer)
		return err
	})
}

// named is the object that arguments name, as kubectl's do: KIND NAME or KIND/NAME, where KIND is a kind, a resource
// or a short name, and may have a version and a group.
func named(config *rest.Config, namespace string, args []string) (client.Object, error) {
	if len(args) == 1 {
		args = strings.SplitN(args[0], "/", 2)
	}
	if len(args) != 2 || args[0] == "" || args[1] == "" {
		return nil, errors.New("say which object: quintet why KIND NAME")
	}
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	groups, err := restmapper.GetAPIGroupResources(d)
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewShortcutExpander(restmapper.NewDiscoveryRESTMapper(groups), d, nil)
	mapping, err := mappingFor(mapper, args[0])
	if err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(mapping.GroupVersionKind)
	obj.SetName(args[1])
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		obj.SetNamespace(namespace)
	}
	return obj, nil
}

func mappingFor(mapper meta.RESTMapper, name string) (*meta.RESTMapping, error) {
	full, resource := schema.ParseResourceArg(name)
	if full != nil {
		if gvk, err := mapper.KindFor(*full); err == nil {
			return mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		}
	}
	gvk, err := mapper.KindFor(resource.WithVersion(""))
	if err == nil {
		return mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	mapping, ofKind := mapper.RESTMapping(schema.ParseGroupKind(name))
	if ofKind != nil {
		return nil, fmt.Errorf("the cluster serves no kind %q: see kubectl api-resources (%w)", name, err)
	}
	return mapping, nil
}

// whyAll explains what is not well in a namespace, which has to exist. What is controlled by another object is
// explained with that one.
func (a *app) whyAll(ctx context.Context, c client.Client, f whyFlags) error {
	if err := checkNamespace(ctx, c, f.namespace); err != nil {
		return err
	}
	answers := []why.Answer{}
	for _, gvk := range examined {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		if err := c.List(ctx, list, client.InNamespace(f.namespace)); err != nil {
			return err
		}
		for i := range list.Items {
			obj := &list.Items[i]
			if isControlled(obj) || gvk.Kind == "Service" && obj.GetNamespace() == "default" && obj.GetName() == "kubernetes" {
				continue // the API servers of a cluster in process have no address that pods reach
			}
			answer, err := why.Of(ctx, c, obj)
			if err != nil {
				return err
			}
			if answer.State != why.Missing && !answer.Well() {
				answers = append(answers, answer)
			}
		}
	}
	return a.print(f.output, answers, func() error {
		if len(answers) == 0 {
			_, err := fmt.Fprintf(a.out, "All is well in namespace %s.\n", f.namespace)
			return err
		}
		for _, answer := range answers {
			if _, err := fmt.Fprintln(a.out, answer); err != nil {
				return err
			}
		}
		return nil
	})
}

// maxNamespaces bounds how many namespaces an error names.
const maxNamespaces = 10

// checkNamespace returns an error if a namespace does not exist, with the names of those that do. A client that may not
// read namespaces gets none; the empty name stands for all of them.
func checkNamespace(ctx context.Context, c client.Client, name string) error {
	if name == "" {
		return nil
	}
	err := c.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
	if apierrors.IsForbidden(err) {
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	missing := fmt.Errorf("namespace %q does not exist", name)
	var list corev1.NamespaceList
	if err := c.List(ctx, &list); err != nil || len(list.Items) == 0 {
		return missing
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	more := ""
	if len(names) > maxNamespaces {
		more = fmt.Sprintf(" and %d more", len(names)-maxNamespaces)
		names = names[:maxNamespaces]
	}
	return fmt.Errorf("%w; those that do: %s%s", missing, strings.Join(names, ", "), more)
}

// isControlled tells whether another object controls this one.
func isControlled(obj metav1.Object) bool { return metav1.GetControllerOf(obj) != nil }
