// Package peers passes requests for what this API server doesn't serve on to another of the cluster that does, and
// tells in discovery what the others serve, so that servers of different releases make up one cluster (KEP-4020).
package peers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/egress"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/components/apiserver/serverlease"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/internal/follow"
	"quintet.dev/quintet/internal/repeat"
)

// Config of Peers.
type Config struct {
	// ID is the name of the Lease by which the others know this server.
	ID string
	// Address is the host and port at which they reach it.
	Address string
	// Store and Prefix are where the addresses of all servers are kept.
	Store  storage.Store
	Prefix string
	// Objects tells of the Leases of servers, and of definitions and APIServices.
	Objects objects.Store
	// CAFile is a PEM file with the authorities of the others' serving certificates, which is followed. Without it
	// nothing is passed on.
	CAFile string
	// Certificate returns the client certificate that proves to the others that a request comes through an API server;
	// it may return nil, and they then believe nothing of what they are told.
	Certificate func() *tls.Certificate
	// Dial connects to the others; nil does so straight.
	Dial egress.Dial
	// Changed is told, one call at a time, of what the others serve, by their IDs. It must not change it.
	Changed func(map[string][]apidiscoveryv2.APIGroupDiscovery)
	Clock   clock.WithTicker
}

// Peers are the other API servers of the cluster, as this one sees them.
type Peers struct {
	config      Config
	servers     *serverlease.Servers
	authorities *follow.Files                  // nil if nothing is passed on
	transport   atomic.Pointer[http.Transport] // by the newest of them
	metrics     metrics
	asking      *repeat.Loop // asks the others what they serve
	showing     *repeat.Loop // shows it
	hidden      hidden
	shown       atomic.Pointer[view]
}

// view is what the others serve, by their IDs. It is replaced as a whole.
type view map[string]peer

// peer is what a server serves.
type peer struct {
	resources map[schema.GroupVersionResource]bool
	groups    []apidiscoveryv2.APIGroupDiscovery // without the core group, of which discovery of /apis doesn't tell
}

const (
	// addressLife is how long the address of a server that no longer renews it is kept, and renewEvery how often it
	// does.
	addressLife = 15 * time.Second
	renewEvery  = 10 * time.Second
	// identityLabel marks the addresses in the store with the IDs of their servers.
	identityLabel = "apiserverIdentity"
	// serverName is in the serving certificates of all servers, whatever their addresses.
	serverName = "kubernetes.default.svc"
)

// New makes Peers without any known peer.
func New(config Config) (*Peers, error) {
	p := &Peers{
		config: config, metrics: newMetrics(),
		servers: &serverlease.Servers{Store: config.Store, Root: serverlease.Root(config.Prefix, "peerserverleases"),
			Life: addressLife},
		asking:  repeat.New("fetch discovery of peers", config.Clock, firstPause).Doubling(lastPause),
		showing: repeat.New("show what peers serve", config.Clock, firstPause),
		hidden:  hidden{now: map[string][]schema.GroupVersion{}, before: map[schema.GroupVersion]time.Time{}},
	}
	p.shown.Store(&view{})
	if config.CAFile == "" {
		return p, nil
	}
	var err error
	if p.authorities, err = follow.New(p.trust, config.CAFile); err != nil {
		return nil, fmt.Errorf("--peer-ca-file: %w", err)
	}
	return p, nil
}

// trust makes new connections accept only certificates signed by these authorities.
func (p *Peers) trust(_ context.Context, contents [][]byte) error {
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(contents[0]) {
		return follow.Permanent(fmt.Errorf("%s holds no certificate", p.config.CAFile))
	}
	// The defaults notice connections whose other end is gone without a word.
	before := p.transport.Swap(utilnet.SetTransportDefaults(&http.Transport{
		DialContext: p.config.Dial, TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
		IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 25,
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: authorities, ServerName: serverName,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if c := p.config.Certificate(); c != nil {
					return c, nil
				}
				return &tls.Certificate{}, nil
			},
		},
	}))
	if before != nil {
		before.CloseIdleConnections()
	}
	return nil
}

// Register registers the metrics.
func (p *Peers) Register(registry prometheus.Registerer) error {
	return errors.Join(registry.Register(p.metrics.passed), registry.Register(p.metrics.failed),
		registry.Register(p.metrics.unseen))
}

// Run tells the others where this server is, and follows what they serve, until ctx ends; then it takes back what it
// told.
func (p *Peers) Run(ctx context.Context) error {
	group, within := errgroup.WithContext(ctx)
	group.Go(func() error {
		p.stay(within)
		return nil
	})
	if p.authorities != nil {
		defer func() { p.transport.Load().CloseIdleConnections() }()
		group.Go(func() error { return p.authorities.Run(within, p.config.Clock) })
		p.feed(within, group)
		group.Go(func() error {
			p.follow(within)
			return nil
		})
	}
	if err := group.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

// stay keeps the address of this server in the store.
func (p *Peers) stay(ctx context.Context) {
	ticker := p.config.Clock.NewTicker(renewEvery)
	defer ticker.Stop()
	for {
		if err := p.tellAddress(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to register peer address; retrying")
		}
		select {
		case <-ticker.C():
		case <-ctx.Done():
			leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			if err := p.servers.Remove(leaving, p.config.ID); err != nil {
				klog.FromContext(ctx).V(2).Info("Failed to unregister peer address", "err", err)
			}
			return
		}
	}
}

func (p *Peers) tellAddress(ctx context.Context) error {
	host, port, err := net.SplitHostPort(p.config.Address)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	return p.servers.Renew(ctx, p.config.ID, func(lease *serverlease.Lease) {
		lease.Labels = map[string]string{identityLabel: p.config.ID}
		//lint:ignore SA1019 see serverlease.Lease
		lease.Subsets = []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: host}},
			Ports:     []corev1.EndpointPort{{Name: "https", Port: int32(number), Protocol: corev1.ProtocolTCP}},
		}}
	})
}

// addressOf finds where a server is reached.
func (p *Peers) addressOf(ctx context.Context, id string) (string, error) {
	lease, err := p.servers.Get(ctx, id)
	if err != nil {
		return "", fmt.Errorf("the address of API server %s: %w", id, err)
	}
	if len(lease.Subsets) == 0 || len(lease.Subsets[0].Addresses) == 0 || len(lease.Subsets[0].Ports) == 0 {
		return "", fmt.Errorf("API server %s tells no address", id)
	}
	at := lease.Subsets[0]
	return net.JoinHostPort(at.Addresses[0].IP, strconv.Itoa(int(at.Ports[0].Port))), nil
}
