package proxy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/proxy/healthcheck"
	"quintet.dev/quintet/components/proxy/nft"
)

// Proxy is kube-proxy of one node.
type Proxy struct {
	config  Config
	name    string // of the node
	started time.Time
	metrics *metrics
	health  *healthcheck.Proxy
}

// New checks the configuration.
func New(config Config) (*Proxy, error) {
	if err := config.ReadFile(); err != nil {
		return nil, err
	}
	config.HealthzAddress = serveAt(config.HealthzAddress, config.healthzPort, healthzPort)
	config.MetricsAddress = serveAt(config.MetricsAddress, config.metricsPort, metricsPort)
	if err := config.check(); err != nil {
		return nil, err
	}
	if config.Client == nil && !config.Cleanup && config.WriteConfigTo == "" {
		client, err := newClient(&config)
		if err != nil {
			return nil, err
		}
		config.Client = client
	}
	if config.Open == nil {
		config.Open = nft.Open
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	name := config.HostnameOverride
	if name == "" {
		hostname, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("host name (or give --hostname-override): %w", err)
		}
		name = hostname
	}
	p := &Proxy{
		config: config, name: strings.ToLower(strings.TrimSpace(name)), metrics: newMetrics(),
		started: config.Clock.Now(),
	}
	p.health = healthcheck.NewProxy(config.Clock, 2*config.SyncPeriod)
	return p, nil
}

func newClient(c *Config) (kubernetes.Interface, error) {
	if c.Kubeconfig == "" && c.Master == "" {
		klog.Background().Info("Neither --kubeconfig nor --master was specified, using the configuration of the pod")
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: c.Kubeconfig},
		&clientcmd.ConfigOverrides{ClusterInfo: clientcmdapi.Cluster{Server: c.Master}}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %q: %w", c.Kubeconfig, err)
	}
	config.QPS, config.Burst = c.QPS, int(c.Burst)
	config.ContentType, config.AcceptContentTypes = c.ContentType, c.AcceptContentTypes
	return kubernetes.NewForConfig(config)
}

// Run keeps the node's rules until ctx ends; they stay when it returns, as connections do. With Cleanup it removes them
// and returns, with WriteConfigTo it writes the configuration and returns.
func (p *Proxy) Run(ctx context.Context) error {
	if p.config.WriteConfigTo != "" {
		return p.config.writeConfiguration(p.config.WriteConfigTo)
	}
	if p.config.Cleanup {
		return p.cleanup(ctx)
	}
	log := klog.FromContext(ctx)
	if err := setOOMScore(p.config.OOMScoreAdj); err != nil {
		log.Info("Failed to protect the process from the OOM killer", "oomScoreAdj", p.config.OOMScoreAdj, "err", err)
	}
	p.config.Conntrack.limit(ctx, raiseSysctl)
	tell, stop := p.recordEvents(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range p.servers() {
		group.Go(func() error {
			err := p.serve(ctx, s)
			if ctx.Err() == nil {
				tell(v1.EventTypeWarning, s.failure, err.Error())
			}
			return err
		})
	}
	group.Go(func() error { return p.sync(ctx) })
	tell(v1.EventTypeNormal, "Starting", "")
	return group.Wait()
}

// recordEvents returns what tells events of the node, and what ends that. Events are sent in the background.
func (p *Proxy) recordEvents(ctx context.Context) (tell func(kind, reason, note string), stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: p.config.Client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Events will not be recorded")
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, "kube-proxy")
	node := &v1.ObjectReference{Kind: "Node", Name: p.name, UID: types.UID(p.name)}
	tell = func(kind, reason, note string) {
		recorder.Eventf(node, nil, kind, reason, "StartKubeProxy", "%s", note)
	}
	return tell, func() {
		cancel()
		broadcaster.Shutdown()
	}
}

// cleanup removes the tables of the families that the machine has.
func (p *Proxy) cleanup(ctx context.Context) error {
	var unavailable, errs []error
	for _, family := range families() {
		rules, kernel, err := p.config.Open(family)
		if err != nil {
			unavailable = append(unavailable, err)
			continue
		}
		errs = append(errs, nft.New(nft.Config{Family: family}, rules, kernel).Cleanup(ctx))
	}
	if len(unavailable) == len(families()) {
		return errors.Join(unavailable...)
	}
	return errors.Join(errs...)
}

func families() []v1.IPFamily { return []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol} }

func setOOMScore(score int32) error {
	return os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(int(score))), 0o644)
}

// nodeAddressTimeout is how long to wait for the addresses of the node: a kubelet that starts now reports them soon.
const nodeAddressTimeout = 30 * time.Second
