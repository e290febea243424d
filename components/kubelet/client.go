package kubelet

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"

	"quintet.dev/quintet/internal/kubeconfig"
)

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

// eventScheme holds the kinds of involved objects of events.
func eventScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		panic(err) // the types are compiled in
	}
	return scheme
}

// services watches all Services for the environment of containers.
type services struct {
	factory informers.SharedInformerFactory
	lister  listers.ServiceLister
	synced  func() bool
}

func newServices(client kubernetes.Interface) *services {
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Services()
	return &services{factory: factory, lister: informer.Lister(), synced: informer.Informer().HasSynced}
}

func (s *services) run(ctx context.Context) {
	s.factory.Start(ctx.Done())
	<-ctx.Done()
	s.factory.Shutdown()
}

func (s *services) list() ([]*v1.Service, error) {
	if !s.synced() {
		return nil, fmt.Errorf("services have not been read yet, so the container's environment is not known")
	}
	return s.lister.List(labels.Everything())
}
