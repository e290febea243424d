package proxy

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/internal/informer"
)

// What a Service or slice is labelled with that another proxy serves, or that needs none.
const (
	labelProxyName = "service.kubernetes.io/service-proxy-name"
	notOurs        = "!" + labelProxyName
	notHeadless    = notOurs + ",!" + v1.IsHeadlessService
)

// watching is the informers of Run.
type watching struct {
	synced <-chan struct{} // closed when the initial list was delivered
	stop   func()
}

// watch tells changes of Services, their endpoints, the own node and the ranges of cluster IPs, until ctx ends.
func (p *Proxy) watch(ctx context.Context, events chan<- event) (*watching, error) {
	send := func(e event) {
		select {
		case events <- e:
		case <-ctx.Done():
		}
	}
	selecting := func(label, field string) informers.SharedInformerOption {
		return informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector, o.FieldSelector = label, field
		})
	}
	factory := func(label, field string) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactoryWithOptions(p.config.Client, p.config.ResyncPeriod,
			selecting(label, field), informers.WithTransform(informer.WithoutManagedFields))
	}
	services, slices := factory(notOurs, ""), factory(notHeadless, "")
	node := factory("", fields.OneTermEqualSelector(metav1.ObjectNameField, p.name).String())
	ranges := factory("", "")
	factories := []informers.SharedInformerFactory{services, slices, node, ranges}

	var told []cache.InformerSynced
	for _, of := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
		awaited  bool // servers without ServiceCIDRs serve the others
	}{
		{services.Core().V1().Services().Informer(), handlers(func(_, svc *v1.Service, deleted bool) {
			send(serviceEvent(svc, deleted))
		}), true},
		{slices.Discovery().V1().EndpointSlices().Informer(),
			handlers(func(before, s *discoveryv1.EndpointSlice, deleted bool) { send(sliceEvent(before, s, deleted)) }),
			true},
		{node.Core().V1().Nodes().Informer(), handlers(func(_, n *v1.Node, deleted bool) {
			send(nodeEvent(ctx, n, deleted))
		}), true},
		{ranges.Networking().V1().ServiceCIDRs().Informer(),
			handlers(func(_, c *networkingv1.ServiceCIDR, deleted bool) { send(serviceCIDREvent(ctx, c, deleted)) }),
			false},
	} {
		registration, err := of.informer.AddEventHandler(of.handler)
		if err != nil {
			return nil, err
		}
		if of.awaited {
			told = append(told, registration.HasSynced)
		}
	}
	for _, f := range factories {
		f.Start(ctx.Done())
	}
	synced := make(chan struct{})
	go func() {
		defer close(synced)
		p.waitFor(ctx, told)
	}()
	return &watching{synced: synced, stop: func() {
		for _, f := range factories {
			f.Shutdown()
		}
		<-synced
	}}, nil
}

// waitFor returns when all are true, or ctx ends. A start is made of such waits, so that it looks often.
func (p *Proxy) waitFor(ctx context.Context, all []cache.InformerSynced) {
	ticker := p.config.Clock.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		done := true
		for _, synced := range all {
			done = done && synced()
		}
		if done {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// handlers has tell called for each object that comes, changes or goes. A change comes with the object as it was
// before. Resyncs and lists that tell what is known are passed over.
func handlers[T metav1.Object](tell func(before, object T, deleted bool)) cache.ResourceEventHandler {
	var none T
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if typed, ok := object.(T); ok {
				tell(none, typed, false)
			}
		},
		UpdateFunc: func(old, object any) {
			before, known := old.(T)
			typed, ok := object.(T)
			if ok && known && !sameVersion(before, typed) {
				tell(before, typed, false)
			}
		},
		DeleteFunc: func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			if typed, ok := object.(T); ok {
				tell(none, typed, true)
			}
		},
	}
}

func sameVersion(a, b metav1.Object) bool {
	version := a.GetResourceVersion()
	return a == b || version != "" && version == b.GetResourceVersion() && a.GetUID() == b.GetUID()
}
