package dynamic

import (
	"context"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	webhookinit "k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// parts are what a plug-in of k8s.io/apiserver is given.
type parts struct {
	life      context.Context
	config    *Config
	client    *client
	dynamic   dynamic.Interface
	informers informers.SharedInformerFactory
}

func newParts(life context.Context, config *Config) (parts, error) {
	typed, err := kubernetes.NewForConfig(config.Client)
	if err != nil {
		return parts{}, err
	}
	untyped, err := dynamic.NewForConfig(config.Client)
	if err != nil {
		return parts{}, err
	}
	return parts{
		life: life, config: config, client: &client{Interface: typed}, dynamic: untyped,
		informers: shared{config.Informers, life},
	}, nil
}

func (p parts) initialize(plugin admission.Interface) {
	initializer.New(p.client, p.dynamic, p.informers, p.config.Authorizer, utilfeature.DefaultFeatureGate, nil,
		p.life.Done(), mapper{p.config}).Initialize(plugin)
	webhookinit.NewPluginInitializer(p.config.Egress, p.config.Services).Initialize(plugin)
}

// shared are informers that can't be stopped one by one: a policy starts those of its parameters for as long as it
// exists itself, but others may have come to use them, and a stopped informer can't be restarted.
type shared struct {
	informers.SharedInformerFactory
	life context.Context
}

// Start implements informers.SharedInformerFactory.
func (s shared) Start(<-chan struct{}) { s.StartWithContext(s.life) }
