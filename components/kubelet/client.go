package kubelet

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	nodelisters "k8s.io/client-go/listers/node/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/fleet"
	"quintet.dev/quintet/components/kubelet/objects"
	"quintet.dev/quintet/components/kubelet/source"
	"quintet.dev/quintet/internal/informer"
	"quintet.dev/quintet/internal/kubeconfig"
)

// link is what leads to the API server.
type link struct {
	client   kubernetes.Interface
	recorder record.EventRecorder
	pods     source.Source[*v1.Pod]
	node     source.Source[*v1.Node]
	objects  *objects.Watches
	turns    chan struct{} // that workers of pods take; nil where they need not
	reports  chan struct{} // that reports of the node take; nil where they need not
	writes   chan struct{} // that writes of pods' statuses take; nil where they need not
	close    func()        // when all that uses the link has ended
}

// connect makes a link of the kubelet's own, or one that it shares. One that requests its certificates shares nothing.
func (k *Kubelet) connect(ctx context.Context, group *errgroup.Group) (*link, error) {
	if c := &k.config; c.Fleet != nil && c.BootstrapKubeconfig == "" && !c.RotateCertificates {
		return k.joinFleet(ctx, c.Fleet)
	}
	client, err := k.client(ctx, group)
	if err != nil {
		return nil, err
	}
	l := &link{client: client, objects: &objects.Watches{Client: func() kubernetes.Interface { return client }}}
	var stopEvents func()
	l.recorder, stopEvents = k.recorder(ctx, client)
	l.close = func() {
		l.objects.Wait()
		stopEvents()
	}
	bound := fields.OneTermEqualSelector("spec.nodeName", k.name)
	l.pods = source.Watch(source.Selected(client.CoreV1().Pods(metav1.NamespaceAll), bound, client), &v1.Pod{})
	named := fields.OneTermEqualSelector(metav1.ObjectNameField, k.name)
	l.node = source.Watch(source.Selected(client.CoreV1().Nodes(), named, client), &v1.Node{})
	return l, nil
}

func (k *Kubelet) joinFleet(ctx context.Context, f *fleet.Fleet) (*link, error) {
	leave, err := f.Join(ctx)
	if err != nil {
		return nil, err
	}
	c := &k.config
	client, err := f.Client(k.name, float32(c.KubeAPIQPS), int(c.KubeAPIBurst))
	if err != nil {
		leave()
		return nil, err
	}
	l := &link{client: client, pods: f.Pods(k.name), node: f.Node(k.name), objects: f.Objects(), turns: f.Turns(),
		reports: f.Reports(), writes: f.Writes(), close: leave}
	if c.Recorder == nil && c.EventQPS == fleet.EventQPS && c.EventBurst == fleet.EventBurst {
		l.recorder = f.Recorder(k.name).WithLogger(klog.FromContext(ctx))
		return l, nil
	}
	recorder, stop := k.recorder(ctx, client)
	l.recorder, l.close = recorder, func() {
		stop()
		leave()
	}
	return l, nil
}

// client connects to the API server; it requests a certificate first where there is none yet.
func (k *Kubelet) client(ctx context.Context, group *errgroup.Group) (kubernetes.Interface, error) {
	if k.config.Client != nil {
		return k.config.Client, nil
	}
	if err := k.bootstrap(ctx, group); err != nil {
		return nil, err
	}
	config, err := kubeconfig.Load(k.config.Kubeconfig, float32(k.config.KubeAPIQPS))
	if err != nil {
		return nil, err
	}
	config.Burst = int(k.config.KubeAPIBurst)
	config = kubeconfig.AddUserAgent(config, "kubelet", "kubelet")
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return client, nil
}

// services watches all Services for the environment of containers, and the RuntimeClasses that pods may choose.
type services struct {
	factory       informers.SharedInformerFactory
	lister        listers.ServiceLister
	synced        func() bool
	classes       nodelisters.RuntimeClassLister
	classesSynced func() bool
}

func newServices(client kubernetes.Interface) *services {
	factory := informer.NewFactory(client, 0, nil)
	informer := factory.Core().V1().Services()
	classes := factory.Node().V1().RuntimeClasses()
	return &services{factory: factory, lister: informer.Lister(), synced: informer.Informer().HasSynced,
		classes: classes.Lister(), classesSynced: classes.Informer().HasSynced}
}

func (s *services) run(ctx context.Context) {
	s.factory.Start(ctx.Done())
	<-ctx.Done()
	s.factory.Shutdown()
}

// handler is that of a RuntimeClass.
func (s *services) handler(class string) (string, error) {
	if !s.classesSynced() {
		return "", errors.New("runtime classes have not been read yet, so the pod's is not known")
	}
	found, err := s.classes.Get(class)
	if err != nil {
		return "", fmt.Errorf("RuntimeClass %q: %w", class, err)
	}
	return found.Handler, nil
}

func (s *services) list() ([]*v1.Service, error) {
	if !s.synced() {
		return nil, fmt.Errorf("services have not been read yet, so the container's environment is not known")
	}
	return s.lister.List(labels.Everything())
}
