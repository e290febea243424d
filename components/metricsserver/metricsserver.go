package metricsserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/metricsserver/usage"
	"quintet.dev/quintet/internal/certs"
	"quintet.dev/quintet/internal/informer"
)

// MetricsServer scrapes kubelets and serves what they tell.
type MetricsServer struct {
	config  Config
	metrics *metrics
	serving certs.GetFunc // nil for a self-signed certificate
	scraper *scraper

	factory     informers.SharedInformerFactory
	podMetadata metadatainformer.SharedInformerFactory
	nodes       corelisters.NodeLister
	pods        cache.GenericLister
	synced      []cache.InformerSynced
	added       chan struct{} // a node came

	state atomic.Pointer[usage.State]
	// ticked is when the last scrape of all nodes began, in nanoseconds since the epoch; 0 before the first.
	ticked atomic.Int64
}

// New makes a metrics server, which does nothing before Run.
func New(config Config) (*MetricsServer, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	connection, err := config.connection()
	if err != nil {
		return nil, err
	}
	m := &MetricsServer{config: config, metrics: newMetrics(), added: make(chan struct{}, 1)}
	m.state.Store(&usage.State{})
	if m.serving, err = config.Serving.Certificates("metrics-server", config.Clock); err != nil {
		return nil, err
	}
	kubelets, err := rest.HTTPClientFor(config.kubelets(connection))
	if err != nil {
		return nil, fmt.Errorf("connect to kubelets: %w", err)
	}
	m.scraper = &scraper{client: kubelets, kubelet: config.Kubelet, clock: config.Clock, metrics: m.metrics}
	return m, m.watch(connection)
}

// watch makes the informers: nodes with what it takes to reach them, and of pods the metadata.
func (m *MetricsServer) watch(connection *rest.Config) error {
	core := rest.CopyConfig(connection)
	core.ContentType = runtime.ContentTypeProtobuf
	core.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(core)
	if err != nil {
		return err
	}
	podClient, err := metadata.NewForConfig(connection)
	if err != nil {
		return err
	}
	m.factory = informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTransform(informer.WithoutManagedFields),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = m.config.NodeSelector }))
	nodes := m.factory.Core().V1().Nodes()
	m.nodes = nodes.Lister()
	m.podMetadata = metadatainformer.NewSharedInformerFactoryWithOptions(podClient, 0,
		metadatainformer.WithTransform(informer.WithoutManagedFields))
	pods := m.podMetadata.ForResource(v1.SchemeGroupVersion.WithResource("pods"))
	m.pods = pods.Lister()
	m.synced = []cache.InformerSynced{nodes.Informer().HasSynced, pods.Informer().HasSynced}
	_, err = nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) {
			select {
			case m.added <- struct{}{}:
			default:
			}
		},
		DeleteFunc: func(object any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
				m.metrics.forget(key)
			}
		},
	})
	return err
}

// Run serves and scrapes until ctx ends.
func (m *MetricsServer) Run(ctx context.Context) error {
	defer m.scraper.client.CloseIdleConnections()
	group, ctx := errgroup.WithContext(ctx)
	if err := m.serve(ctx, group); err != nil {
		return err
	}
	m.factory.Start(ctx.Done())
	m.podMetadata.Start(ctx.Done())
	group.Go(func() error {
		<-ctx.Done()
		m.factory.Shutdown()
		m.podMetadata.Shutdown()
		return nil
	})
	group.Go(func() error { m.collect(ctx); return nil })
	return group.Wait()
}

// collect scrapes all nodes now and then. The first time is as soon as there is a node.
func (m *MetricsServer) collect(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), m.synced...) {
		return
	}
	ticker := m.config.Clock.NewTicker(m.config.Resolution)
	defer ticker.Stop()
	m.tick(ctx)
	for {
		added := m.added
		if m.scraped() {
			added = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-added:
		case <-ticker.C():
		}
		m.tick(ctx)
	}
}

// scraped tells whether any node answered the last time.
func (m *MetricsServer) scraped() bool {
	nodes, _ := m.state.Load().Points()
	return nodes > 0
}

// tick scrapes all nodes. It is called by one goroutine.
func (m *MetricsServer) tick(ctx context.Context) {
	began := m.config.Clock.Now()
	m.ticked.Store(began.UnixNano())
	nodes, err := m.nodes.List(labels.Everything())
	if err != nil {
		return // never: it is read from memory
	}
	ctx, cancel := context.WithTimeout(ctx, m.config.Resolution)
	defer cancel()
	next := m.state.Load().Next(m.scraper.all(ctx, nodes), m.config.Resolution)
	m.state.Store(&next)
	m.metrics.ticked(m.config.Clock.Since(began), &next)
}

// timely fails if nodes have not been scraped for long.
func (m *MetricsServer) timely(*http.Request) error {
	last := m.ticked.Load()
	if last == 0 {
		return nil
	}
	if since := m.config.Clock.Since(time.Unix(0, last)); since > m.config.Resolution*3/2 {
		return fmt.Errorf("no scrape of nodes began in the last %v", since)
	}
	return nil
}

func (m *MetricsServer) stored(*http.Request) error {
	if !m.state.Load().Ready() {
		return errors.New("no metrics to serve")
	}
	return nil
}

func (m *MetricsServer) informed(*http.Request) error {
	for _, synced := range m.synced {
		if !synced() {
			return errors.New("informers have not synced yet")
		}
	}
	return nil
}

func (m *MetricsServer) listen() (net.Listener, error) {
	if m.config.Listener != nil {
		return m.config.Listener, nil
	}
	address := net.JoinHostPort(m.config.BindAddress, strconv.Itoa(m.config.SecurePort))
	listener, err := m.config.Serving.Sharing.Listen(address)
	if err != nil {
		return nil, fmt.Errorf("--secure-port: %w", err)
	}
	return listener, nil
}
