package policy

import (
	"context"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/policy/compile"
)

// watching is the informers of Run.
type watching struct {
	synced <-chan struct{} // closed when the initial list was delivered
	stop   func()
}

// watch tells events of pods, namespaces, NetworkPolicies and the own node, until ctx ends.
func (p *Policy) watch(ctx context.Context, events chan<- event) (*watching, error) {
	send := func(e event) {
		select {
		case events <- e:
		case <-ctx.Done():
		}
	}
	factory := func(field string) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactoryWithOptions(p.config.Client, 0, informers.WithTransform(stripped),
			informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = field }))
	}
	// Pods that ended have no part in policies; the watch reports them as deleted.
	pods := factory("status.phase!=Succeeded,status.phase!=Failed")
	node, others := factory(fields.OneTermEqualSelector(metav1.ObjectNameField, p.node).String()), factory("")
	factories := []informers.SharedInformerFactory{pods, node, others}

	var told []cache.DoneChecker
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods.Core().V1().Pods().Informer(): handlers(func(pod *v1.Pod,
			deleted bool) {
			send(p.podEvent(pod, deleted))
		}),
		node.Core().V1().Nodes().Informer(): handlers(func(node *v1.Node, deleted bool) {
			if !deleted {
				send(func(_ context.Context, x *compile.Index) { x.SetPodCIDRs(podCIDRs(node)) })
			}
		}),
		others.Core().V1().Namespaces().Informer(): handlers(func(n *v1.Namespace, deleted bool) {
			send(namespaceEvent(n, deleted))
		}),
		others.Networking().V1().NetworkPolicies().Informer(): handlers(func(n *networkingv1.NetworkPolicy,
			deleted bool) {
			send(policyEvent(n, deleted))
		}),
	} {
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return nil, err
		}
		told = append(told, registration.HasSyncedChecker())
	}
	for _, f := range factories {
		f.StartWithContext(ctx)
	}
	synced, waited := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(waited)
		for _, of := range told {
			select {
			case <-of.Done():
			case <-ctx.Done():
				return
			}
		}
		close(synced)
	}()
	return &watching{synced: synced, stop: func() {
		for _, f := range factories {
			f.Shutdown()
		}
		<-waited
	}}, nil
}

func (p *Policy) podEvent(pod *v1.Pod, deleted bool) event {
	return func(_ context.Context, x *compile.Index) {
		if of, takesPart := compile.PodOf(pod, p.node); takesPart && !deleted {
			x.SetPod(of)
		} else {
			x.DeletePod(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		}
	}
}

func namespaceEvent(namespace *v1.Namespace, deleted bool) event {
	return func(_ context.Context, x *compile.Index) {
		if deleted {
			x.DeleteNamespace(namespace.Name)
		} else {
			x.SetNamespace(namespace.Name, labels.Set(namespace.Labels))
		}
	}
}

func policyEvent(policy *networkingv1.NetworkPolicy, deleted bool) event {
	return func(ctx context.Context, x *compile.Index) {
		if deleted {
			x.DeletePolicy(types.NamespacedName{Namespace: policy.Namespace, Name: policy.Name})
			return
		}
		if err := x.SetPolicy(policy); err != nil {
			log := klog.FromContext(ctx)
			log.Error(err, "Invalid parts of a NetworkPolicy allow nothing", "networkPolicy", klog.KObj(policy))
		}
	}
}

func podCIDRs(node *v1.Node) []netip.Prefix {
	texts := node.Spec.PodCIDRs
	if len(texts) == 0 {
		texts = []string{node.Spec.PodCIDR}
	}
	var ranges []netip.Prefix
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil { // the API server admits no other, but none at all
			ranges = append(ranges, prefix.Masked())
		}
	}
	return ranges
}

// handlers has tell called for each object that comes, changes or goes.
func handlers[T any](tell func(object T, deleted bool)) cache.ResourceEventHandler {
	call := func(object any, deleted bool) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		if typed, ok := object.(T); ok {
			tell(typed, deleted)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { call(object, false) },
		UpdateFunc: func(_, object any) { call(object, false) },
		DeleteFunc: func(object any) { call(object, true) },
	}
}

// stripped saves the memory of what policies do not read.
func stripped(object any) (any, error) {
	switch of := object.(type) {
	case *v1.Pod:
		return strippedPod(of), nil
	case *v1.Namespace:
		return &v1.Namespace{ObjectMeta: strippedMeta(of.ObjectMeta)}, nil
	case *v1.Node:
		return &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: of.Name, UID: of.UID, ResourceVersion: of.ResourceVersion},
			Spec:       v1.NodeSpec{PodCIDR: of.Spec.PodCIDR, PodCIDRs: of.Spec.PodCIDRs},
		}, nil
	case *networkingv1.NetworkPolicy:
		return &networkingv1.NetworkPolicy{ObjectMeta: strippedMeta(of.ObjectMeta), Spec: of.Spec}, nil
	}
	return object, nil
}

func strippedMeta(meta metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID, ResourceVersion: meta.ResourceVersion,
		Labels:            meta.Labels,
		CreationTimestamp: meta.CreationTimestamp, DeletionTimestamp: meta.DeletionTimestamp,
	}
}

func strippedPod(pod *v1.Pod) *v1.Pod {
	out := &v1.Pod{ObjectMeta: strippedMeta(pod.ObjectMeta)}
	out.Spec.NodeName, out.Spec.HostNetwork = pod.Spec.NodeName, pod.Spec.HostNetwork
	out.Spec.Containers = strippedContainers(pod.Spec.Containers)
	out.Spec.InitContainers = strippedContainers(pod.Spec.InitContainers)
	out.Status.Phase, out.Status.PodIP, out.Status.PodIPs = pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs
	return out
}

// strippedContainers are those that have named ports, with these alone.
func strippedContainers(containers []v1.Container) []v1.Container {
	var out []v1.Container
	for _, container := range containers {
		unnamed := func(port v1.ContainerPort) bool { return port.Name == "" }
		if ports := slices.DeleteFunc(slices.Clone(container.Ports), unnamed); len(ports) > 0 {
			out = append(out, v1.Container{Name: container.Name, RestartPolicy: container.RestartPolicy, Ports: ports})
		}
	}
	return out
}
