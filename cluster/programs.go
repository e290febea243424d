package cluster

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/utils/clock"

	moved "quintet.dev/quintet/clock"
	"quintet.dev/quintet/components/apiserver"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
	"quintet.dev/quintet/components/balancer"
	"quintet.dev/quintet/components/controllers"
	"quintet.dev/quintet/components/etcd"
	"quintet.dev/quintet/components/kubelet"
	"quintet.dev/quintet/components/kubelet/fleet"
	"quintet.dev/quintet/components/metricsserver"
	"quintet.dev/quintet/components/provisioner"
	"quintet.dev/quintet/components/scheduler"
	"quintet.dev/quintet/faults"
)

// runner is what every component is.
type runner interface {
	Run(ctx context.Context) error
}

// programs are the components as they run in this process: the same flags, the same values. store is what API servers
// without etcd share; it lives as long as the cluster, so that a restarted server finds its objects again. nodes is
// what kubelets share; it may be nil.
func programs(store storage.Store, clocks clocks, nodes *fleet.Fleet) map[string]Program {
	return map[string]Program{
		"etcd": program(func(env Env) (runner, error) {
			var config etcd.Config
			if err := parse("etcd", config.AddFlags, env.Args); err != nil {
				return nil, err
			}
			env.listensItself()
			return etcd.New(config)
		}),
		"kube-apiserver": program(func(env Env) (runner, error) {
			var config options.Config
			var injection faults.Flag
			if err := parse("kube-apiserver", injection.With(config.AddFlags), env.Args); err != nil {
				return nil, err
			}
			config.Filter, config.Clock = clocks.filter(injection.Filter()), env.Clock
			config.Listener = env.Listener
			if config.Storage == options.StorageMemory {
				config.Store = store
			}
			return apiserver.New(config)
		}),
		"api-balancer": program(func(env Env) (runner, error) {
			config := balancer.NewConfig()
			if err := parse("api-balancer", config.AddFlags, env.Args); err != nil {
				return nil, err
			}
			env.listensItself()
			config.Clock = env.Clock
			return balancer.New(*config)
		}),
		"kube-controller-manager": program(func(env Env) (runner, error) {
			config := controllers.DefaultConfig()
			if err := parse("kube-controller-manager", config.AddFlags, env.Args); err != nil {
				return nil, err
			}
			config.Clock = env.Clock
			if env.moves {
				config.KubeAPIQPS = -1
			}
			return controllers.New(config)
		}),
		"kube-scheduler": runScheduler(),
		"volume-provisioner": program(func(env Env) (runner, error) {
			config := provisioner.NewConfig()
			if err := parse("volume-provisioner", config.AddFlags, env.Args); err != nil {
				return nil, err
			}
			config.Clock = env.Clock
			return provisioner.New(*config)
		}),
		"metrics-server": program(func(env Env) (runner, error) {
			config := metricsserver.NewConfig()
			if err := parse("metrics-server", config.AddFlags, env.Args); err != nil {
				return nil, err
			}
			config.Listener, config.Clock = env.Listener, env.Clock
			return metricsserver.New(*config)
		}),
		"kubelet": program(func(env Env) (runner, error) {
			config := kubelet.NewConfig()
			if err := parse("kubelet", config.AddFlags, env.Args); err != nil {
				return nil, err
			}
			config.Listener, config.Clock, config.Fleet = env.Listener, env.Clock, nodes
			if env.moves {
				config.KubeAPIQPS = -1
			}
			return kubelet.New(*config)
		}),
	}
}

// runScheduler is the scheduler, made with options.
func runScheduler(own ...scheduler.Option) Program {
	return program(func(env Env) (runner, error) {
		var config scheduler.Config
		if err := parse("kube-scheduler", config.AddFlags, env.Args); err != nil {
			return nil, err
		}
		config.Listener, config.Clock = env.Listener, env.Clock
		if env.moves {
			config.QPS = -1
		}
		return scheduler.New(config, own...)
	})
}

func program(make func(Env) (runner, error)) Program {
	return func(ctx context.Context, env Env) error {
		r, err := make(env)
		if err != nil {
			return err
		}
		return r.Run(ctx)
	}
}

// listensItself frees the listener's address for a component that takes no listener.
func (e Env) listensItself() {
	if e.Listener != nil {
		_ = e.Listener.Close()
	}
}

func parse(name string, addFlags func(*pflag.FlagSet), args []string) error {
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	addFlags(fs)
	fs.Int("v", 0, "Verbosity of the log; the back end has seen to it.")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return notAFlag(name, fs, fs.Arg(0))
	}
	return nil
}

// notAFlag returns the error of an argument that is neither a flag nor the value of one.
func notAFlag(component string, fs *pflag.FlagSet, word string) error {
	hint := "arguments are flags, such as --v=4"
	if flag, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "="); flag != "" && fs.Lookup(flag) != nil {
		hint = "did you mean --" + strings.TrimLeft(word, "-") + "?"
	} else if word == "true" || word == "false" {
		hint = "the value of a switch follows an equals sign: --FLAG=" + word
	}
	return fmt.Errorf("%s: argument %q is no flag; %s", component, word, hint)
}

// clocks are those of the components. They show the same time; a clock that tests move treats their timers differently.
type clocks struct {
	api    clock.WithTickerAndDelayedExecution // the timers of API servers and their store are rhythms
	nodes  clock.WithTickerAndDelayedExecution // those of nodes come before those of controllers
	others clock.WithTickerAndDelayedExecution
	count  *activity // of the API servers; nil: it is not needed
}

// clocks are made with the store of the API servers.
func (c *config) clocks(store storage.Store) clocks {
	if c.clock == nil {
		return realTime()
	}
	return clocks{api: apiClock(c.clock), nodes: c.clock.Early(), others: c.clock, count: &activity{store: store}}
}

// of is the clock of a component.
func (c clocks) of(component Component) clock.WithTickerAndDelayedExecution {
	switch component {
	case APIServer, APIBalancer:
		return c.api
	case Node, MetricsServer:
		return c.nodes
	default:
		return c.others
	}
}

func realTime() clocks {
	return clocks{api: clock.RealClock{}, nodes: clock.RealClock{}, others: clock.RealClock{}}
}

// move tells whether tests move the clocks. Clients then have no limits of requests, which are per second of real time:
// what waits for them would come late by hours.
func (c clocks) move() bool { return c.count != nil }

func apiClock(c *moved.Clock) clock.WithTickerAndDelayedExecution { return c.Early().Background() }

func (c clocks) filter(f func(http.Handler) http.Handler) func(http.Handler) http.Handler {
	if c.count == nil {
		return f
	}
	return c.count.wrap(f)
}

func (c *config) newMemoryStore() *memory.Store {
	var tells clock.WithTicker = clock.RealClock{}
	if c.clock != nil {
		tells = apiClock(c.clock)
	}
	if c.from != nil && c.from.memory != nil {
		return memory.NewFrom(tells, c.from.memory)
	}
	return memory.New(tells)
}
