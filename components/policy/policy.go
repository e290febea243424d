package policy

import (
	"context"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/policy/conntrack"
	"quintet.dev/quintet/components/policy/nft"
)

// Policy enforces NetworkPolicies on one node.
type Policy struct {
	config  Config
	node    string
	metrics *metrics
	health  *health
}

// New checks the configuration.
func New(config Config) (*Policy, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	node, err := config.nodeName()
	if err != nil {
		return nil, err
	}
	if config.Client == nil && !config.Cleanup {
		if config.Client, err = newClient(config.Kubeconfig); err != nil {
			return nil, err
		}
	}
	if config.Open == nil {
		config.Open = nft.Open
	}
	if config.Connections == nil {
		config.Connections = conntrack.Netlink{}
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	return &Policy{config: config, node: node, metrics: newMetrics(), health: &health{clock: config.Clock}}, nil
}

// Run keeps the node's rules until ctx ends; they stay in force when it returns. With Cleanup it removes them and
// returns.
func (p *Policy) Run(ctx context.Context) error {
	rules, kernel, err := p.config.Open()
	if err != nil {
		return err
	}
	table := nft.New(rules, kernel)
	if p.config.Cleanup {
		return table.Cleanup(ctx)
	}
	serve, err := p.listen(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if serve != nil {
		group.Go(func() error { return serve(ctx) })
	}
	group.Go(func() error { return p.sync(ctx, table) })
	return group.Wait()
}
