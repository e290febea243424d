// Package egress chooses the way by which the server connects to others
// (https://kubernetes.io/docs/tasks/extend-kubernetes/setup-konnectivity/): straight, or through a proxy, by HTTP
// CONNECT or konnectivity's gRPC. The zero way is straight.
package egress

import (
	"context"
	"fmt"
	"net"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
)

// Dial connects.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Dialers tell how to reach each kind of peer. nil reaches all of them straight.
type Dialers struct {
	dials map[egressselector.EgressType]Dial
}

var peers = []egressselector.EgressType{egressselector.ControlPlane, egressselector.Etcd, egressselector.Cluster}

// Load reads an EgressSelectorConfiguration. It returns nil without a file.
func Load(file string) (*Dialers, error) {
	if file == "" {
		return nil, nil
	}
	config, err := egressselector.ReadEgressSelectorConfiguration(file)
	if err != nil {
		return nil, fmt.Errorf("failed to read egress config: %w", err)
	}
	if errs := egressselector.ValidateEgressSelectorConfiguration(config); len(errs) > 0 {
		return nil, fmt.Errorf("failed to validate egress configuration: %w", errs.ToAggregate())
	}
	w := &Dialers{dials: map[egressselector.EgressType]Dial{}}
	if err := w.takePlain(config); err != nil {
		return nil, fmt.Errorf("failed to setup egress selector: %w", err)
	}
	selector, err := egressselector.NewEgressSelector(config)
	if err != nil {
		return nil, fmt.Errorf("failed to setup egress selector: %w", err)
	}
	if selector == nil { // nothing is configured
		return w, nil
	}
	for _, to := range peers {
		dial, err := selector.Lookup(to.AsNetworkContext())
		if err != nil {
			return nil, fmt.Errorf("the way to %s: %w", to, err)
		}
		if dial != nil {
			w.dials[to] = Dial(dial)
		}
	}
	return w, nil
}

func (w *Dialers) to(peers egressselector.EgressType) Dial {
	if w == nil {
		return nil
	}
	return w.dials[peers]
}

// ControlPlane dials the others of the control plane; nil is a direct connection.
func (w *Dialers) ControlPlane() Dial { return w.to(egressselector.ControlPlane) }

// Etcd dials the store; nil is a direct connection.
func (w *Dialers) Etcd() Dial { return w.to(egressselector.Etcd) }

// Cluster dials nodes, pods and services; nil is a direct connection.
func (w *Dialers) Cluster() Dial { return w.to(egressselector.Cluster) }

// Lookup is for libraries that choose themselves; nil without a configuration.
func (w *Dialers) Lookup() egressselector.Lookup {
	if w == nil {
		return nil
	}
	return func(to egressselector.NetworkContext) (utilnet.DialFunc, error) {
		return utilnet.DialFunc(w.to(to.EgressSelectionName)), nil
	}
}

// Webhooks makes clients of webhooks go their way: Services by that to the cluster, URLs by that to the control plane.
// It is nil without a configuration.
func (w *Dialers) Webhooks() webhook.AuthenticationInfoResolverWrapper {
	if w == nil {
		return nil
	}
	return func(from webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		return &webhook.AuthenticationInfoResolverDelegator{
			ClientConfigForFunc: func(hostPort string) (*rest.Config, error) {
				return by(w.ControlPlane())(from.ClientConfigFor(hostPort))
			},
			ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
				return by(w.Cluster())(from.ClientConfigForService(name, namespace, port))
			},
		}
	}
}

func by(dial Dial) func(*rest.Config, error) (*rest.Config, error) {
	return func(config *rest.Config, err error) (*rest.Config, error) {
		if err == nil && dial != nil {
			config.Dial = dial
		}
		return config, err
	}
}
