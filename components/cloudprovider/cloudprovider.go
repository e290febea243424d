package cloudprovider

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/cloudprovider/approve"
	"quintet.dev/quintet/components/cloudprovider/forward"
	"quintet.dev/quintet/components/cloudprovider/kernel"
	"quintet.dev/quintet/components/cloudprovider/service"
	"quintet.dev/quintet/internal/informer"
)

// CloudProvider gives Services load balancers.
type CloudProvider struct {
	config  Config
	client  kubernetes.Interface
	metrics *metrics
	health  *syncHealth
	// open opens the kernel, which is not touched before Run.
	open func() (forward.Kernel, error)
}

// New checks the configuration against the machine's network.
func New(config Config) (*CloudProvider, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	client, err := config.client()
	if err != nil {
		return nil, err
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	p := &CloudProvider{
		client: client, metrics: newMetrics(), health: &syncHealth{clock: config.Clock},
		open: func() (forward.Kernel, error) { return config.Kernel, nil },
	}
	if config.Kernel == nil {
		network, err := kernel.Find(config.Interface)
		if err != nil {
			return nil, err
		}
		config.Network = network
		p.open = func() (forward.Kernel, error) { return kernel.Open(network) }
	}
	p.config = config
	_, err = p.balancers(nil)
	return p, err
}

func (p *CloudProvider) balancers(path *forward.Path) (*balancers, error) {
	pools, err := p.config.pools()
	if err != nil {
		return nil, err
	}
	return newBalancers(pools, p.config.Network, path)
}

// Run serves Services until ctx ends. Their load balancers stop with it, but Services keep their addresses for the next
// run.
func (p *CloudProvider) Run(ctx context.Context) error {
	opened, err := p.open()
	if err != nil {
		return err
	}
	serve, err := p.listen(ctx)
	if err != nil {
		return errors.Join(err, opened.Close())
	}
	path := forward.New(forward.Config{
		Kernel: opened, ProxyPort: p.config.KubeProxyPort, Period: p.config.CheckPeriod, Timeout: p.config.CheckTimeout,
		Resync: p.config.Resync, Clock: p.config.Clock, Synced: p.synced,
	})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serve(ctx) })
	group.Go(func() error { return path.Run(ctx) })
	group.Go(func() error { return p.control(ctx, path) })
	return group.Wait()
}

// control runs the service controller until ctx ends.
func (p *CloudProvider) control(ctx context.Context, path *forward.Path) error {
	balancers, err := p.balancers(path)
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: p.client.CoreV1().Events("")})
	factory := informer.NewFactory(p.client, 0, informer.WithoutManagedFields)
	controller, err := service.New(service.Config{
		Client:        p.client.CoreV1(),
		Services:      factory.Core().V1().Services().Informer(),
		Nodes:         factory.Core().V1().Nodes().Informer(),
		Events:        broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: "service-controller"}),
		LoadBalancers: balancers,
		Class:         p.config.LoadBalancerClass,
		Clock:         p.config.Clock,
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if p.config.ApproveKubeletServing {
		approver, err := approve.New(approve.Config{Client: p.client.CertificatesV1().CertificateSigningRequests(),
			Factory: factory, Clock: p.config.Clock})
		if err != nil {
			return err
		}
		group.Go(func() error { return approver.Run(ctx) })
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	group.Go(func() error { return controller.Run(ctx) })
	return group.Wait()
}
