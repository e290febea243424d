package cluster

import (
	"context"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/cluster/internal/inprocess"
	"quintet.dev/quintet/components/apiserver"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
	"quintet.dev/quintet/components/balancer"
	"quintet.dev/quintet/components/controllers"
	"quintet.dev/quintet/components/etcd"
	"quintet.dev/quintet/components/kubelet"
	"quintet.dev/quintet/components/scheduler"
)

// runner is what every component is.
type runner interface {
	Run(ctx context.Context) error
}

// programs are the components as they run in this process: the same flags, the same values. store is what API servers
// without etcd share; it lives as long as the cluster, so that a restarted server finds its objects again.
func programs(store storage.Store) map[string]inprocess.Program {
	return map[string]inprocess.Program{
		"etcd": program(func(p inprocess.Process) (runner, error) {
			var config etcd.Config
			if err := parse("etcd", config.AddFlags, p.Args); err != nil {
				return nil, err
			}
			if p.Listener != nil {
				_ = p.Listener.Close() // etcd listens by itself
			}
			return etcd.New(config)
		}),
		"kube-apiserver": program(func(p inprocess.Process) (runner, error) {
			var config options.Config
			if err := parse("kube-apiserver", config.AddFlags, p.Args); err != nil {
				return nil, err
			}
			config.Listener = p.Listener
			if config.Storage == options.StorageMemory {
				config.Store = store
			}
			return apiserver.New(config)
		}),
		"api-balancer": program(func(p inprocess.Process) (runner, error) {
			config := balancer.NewConfig()
			if err := parse("api-balancer", config.AddFlags, p.Args); err != nil {
				return nil, err
			}
			if p.Listener != nil {
				_ = p.Listener.Close() // the balancer listens by itself
			}
			return balancer.New(*config)
		}),
		"kube-controller-manager": program(func(p inprocess.Process) (runner, error) {
			config := controllers.DefaultConfig()
			if err := parse("kube-controller-manager", config.AddFlags, p.Args); err != nil {
				return nil, err
			}
			return controllers.New(config)
		}),
		"kube-scheduler": program(func(p inprocess.Process) (runner, error) {
			var config scheduler.Config
			if err := parse("kube-scheduler", config.AddFlags, p.Args); err != nil {
				return nil, err
			}
			return scheduler.New(config)
		}),
		"kubelet": program(func(p inprocess.Process) (runner, error) {
			config := kubelet.NewConfig()
			if err := parse("kubelet", config.AddFlags, p.Args); err != nil {
				return nil, err
			}
			config.Listener = p.Listener
			return kubelet.New(*config)
		}),
	}
}

func program(make func(inprocess.Process) (runner, error)) inprocess.Program {
	return func(ctx context.Context, p inprocess.Process) error {
		r, err := make(p)
		if err != nil {
			if p.Listener != nil {
				_ = p.Listener.Close() // closed already if the component got so far
			}
			return err
		}
		return r.Run(ctx)
	}
}

func parse(name string, addFlags func(*pflag.FlagSet), args []string) error {
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	addFlags(fs)
	fs.Int("v", 0, "Verbosity of the log; the back end has seen to it.")
	return fs.Parse(args)
}

func newMemoryStore() storage.Store { return memory.New(clock.RealClock{}) }
