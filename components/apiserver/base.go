package apiserver

import (
	"context"
	"fmt"
	"net"
	goruntime "runtime"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	basetracing "k8s.io/component-base/tracing"

	"quintet.dev/quintet/components/apiserver/bootstrap"
	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/egress"
	"quintet.dev/quintet/components/apiserver/fieldmanager"
	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/inprocess"
	"quintet.dev/quintet/components/apiserver/options"
)

// base is what every layer is made from: the configuration, and what follows from it alone. Layers only read it.
type base struct {
	config options.Config
	gates  *gates.Gates
	id     string // tells API servers of one cluster apart, among other things in metrics
	made   time.Time
	codecs

	listener  net.Listener // opened first, as a taken port is the likeliest failure
	addresses addresses
	services  serviceRanges
	egress    *egress.Dialers            // to others
	tracing   basetracing.TracerProvider // nil without a configuration
	measures

	// loopback is how the server's own parts are its clients: as system:apiserver, from which nothing is withheld.
	loopback *inprocess.Transport
}

func newBase(config options.Config, undo *cleanup) (*base, error) {
	config, err := config.Complete()
	if err != nil {
		return nil, err
	}
	b := base{
		config: config, id: bootstrap.LeaseName(config.Identity), made: config.Clock.Now(), loopback: newLoopback(),
	}
	b.codecs = newCodecs(undo)
	if b.gates, err = gates.New(config.FeatureGates); err != nil {
		return nil, err
	}
	if err := config.CheckRuntimeConfig(b.gates, b.scheme); err != nil {
		return nil, err
	}
	if b.listener, err = openListener(config); err != nil {
		return nil, err
	}
	undo.add(func() { _ = b.listener.Close() })
	b.addresses = newAddresses(config, b.listener.Addr())
	if b.services.clusterIPs, b.services.nodePorts, err = config.ServiceRanges(b.addresses.ip); err != nil {
		return nil, err
	}
	if b.egress, err = egress.Load(config.EgressFile); err != nil {
		return nil, fmt.Errorf("--egress-selector-config-file: %w", err)
	}
	if b.tracing, err = openTracing(config.TracingConfigFile, b.id, b.egress.ControlPlane()); err != nil {
		return nil, err
	}
	undo.add(func() { closeTracing(context.Background(), b.tracing) })
	if b.measures, err = newMeasures(config, b.gates); err != nil {
		return nil, err
	}
	return &b, nil
}

func newLoopback() *inprocess.Transport {
	return &inprocess.Transport{User: &user.DefaultInfo{
		Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated},
	}}
}

// codecs are the scheme and what encodes by it. They are made when they are first asked for.
type codecs struct {
	scheme func() *runtime.Scheme
	codec  func() *codec.Codec
	types  func() *fieldmanager.Types
}

// newCodecs begins to make the codec, which takes long and is needed late.
func newCodecs(undo *cleanup) codecs {
	c := codecs{scheme: sync.OnceValue(codec.NewScheme)}
	c.codec = sync.OnceValue(func() *codec.Codec { return codec.NewCodec(c.scheme()) })
	c.types = sync.OnceValue(func() *fieldmanager.Types { return fieldmanager.NewTypes(c.scheme()) })
	undo.background(func() { c.codec() })
	return c
}

// addresses are where a server is reached.
type addresses struct {
	// ip and port are those for clients in the cluster; ip is nil if there is only the loopback.
	ip   net.IP
	port int
	// endpoint is the host and port by which clients are told to reach the server, and peer those for other API
	// servers.
	endpoint, peer string
}

func newAddresses(config options.Config, bound net.Addr) addresses {
	a := addresses{endpoint: bound.String(), peer: bound.String()}
	a.ip, a.port = config.Advertised(bound)
	port := strconv.Itoa(a.port)
	switch {
	case config.ExternalHostname != "":
		a.endpoint = net.JoinHostPort(config.ExternalHostname, port)
	case a.ip != nil:
		a.endpoint = net.JoinHostPort(a.ip.String(), port)
	}
	host, peerPort, err := net.SplitHostPort(a.peer)
	if err != nil {
		return a
	}
	if a.ip != nil {
		host, peerPort = a.ip.String(), port
	}
	if config.Peers.AdvertiseIP != "" {
		host = config.Peers.AdvertiseIP
	}
	if config.Peers.AdvertisePort != "" {
		peerPort = config.Peers.AdvertisePort
	}
	a.peer = net.JoinHostPort(host, peerPort)
	return a
}

// cleanup is how to free what was opened by a New that failed.
type cleanup struct {
	undos []func()
	busy  sync.WaitGroup
}

// add notes what is to be done, which comes before those that were noted earlier.
func (c *cleanup) add(undo func()) { c.undos = append(c.undos, undo) }

// background runs work whose results are waited for where they are needed.
func (c *cleanup) background(work func()) { c.busy.Go(work) }

// run returns when all is freed.
func (c *cleanup) run() {
	c.busy.Wait()
	for i := len(c.undos) - 1; i >= 0; i-- {
		c.undos[i]()
	}
}

// concurrentWrites is how many of the first objects are written at a time.
func concurrentWrites(b *base) int {
	if b.config.Storage == options.StorageMemory {
		return goruntime.GOMAXPROCS(0) // nothing is waited for, so that more would only take turns
	}
	return 16 // etcd takes what comes together in one go
}
