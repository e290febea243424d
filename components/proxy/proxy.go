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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/proxy/healthcheck"
	"quintet.dev/quintet/components/proxy/nft"
)

// Proxy is kube-proxy of one node.
type Proxy struct {
	config  Config
	name    string // of the node
	metrics *metrics
	health  *healthcheck.Proxy
}

// New checks the configuration.
func New(config Config) (*Proxy, error) {
	if err := config.ReadFile(); err != nil {
		return nil, err
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	if config.Client == nil && !config.Cleanup {
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
	p := &Proxy{config: config, name: strings.ToLower(strings.TrimSpace(name)), metrics: newMetrics()}
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
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(config)
}

// Run keeps the node's rules until ctx ends; they stay when it returns, as connections do. With Cleanup it removes them
// and returns.
func (p *Proxy) Run(ctx context.Context) error {
	if p.config.Cleanup {
		return p.cleanup(ctx)
	}
	log := klog.FromContext(ctx)
	if err := setOOMScore(p.config.OOMScoreAdj); err != nil {
		log.Info("Failed to protect the process from the OOM killer", "oomScoreAdj", p.config.OOMScoreAdj, "err", err)
	}
	p.config.Conntrack.limit(ctx, writeSysctl)
	listeners, err := p.listen(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, serve := range listeners {
		group.Go(func() error { return serve(ctx) })
	}
	group.Go(func() error { return p.sync(ctx) })
	return group.Wait()
}

func (p *Proxy) cleanup(ctx context.Context) error {
	var errs []error
	for _, family := range []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol} {
		kernel, err := p.config.Open(family)
		if err == nil {
			err = nft.New(nft.Config{Family: family}, kernel).Cleanup(ctx)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func setOOMScore(score int32) error {
	return os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(int(score))), 0o644)
}

// patience is how long the node's addresses are waited for: a kubelet that starts at the same time reports them soon.
const patience = 30 * time.Second
