package scheduler

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"

	"quintet.dev/quintet/internal/delegated"
	"quintet.dev/quintet/internal/leader"
	"quintet.dev/quintet/internal/profiles"
	"quintet.dev/quintet/internal/zpages"
)

// AddFlags binds upstream's flags.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.File, "config", c.File,
		"KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) file; flags given beside it win.")
	fs.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig, "Kubeconfig file that tells how to reach the API server.")
	fs.StringVar(&c.Master, "master", c.Master, "URL of the API server, instead of the one in --kubeconfig.")
	fs.StringVar(&c.ContentType, "kube-api-content-type", runtime.ContentTypeProtobuf,
		"Encoding of built-in objects on the wire: application/vnd.kubernetes.protobuf or application/json.")
	fs.Float32Var(&c.QPS, "kube-api-qps", c.QPS, "Requests per second to the API server; 0 does not limit them.")
	fs.IntVar(&c.Burst, "kube-api-burst", c.Burst, "Requests above --kube-api-qps that may come at once.")
	c.Leader.AddFlags(fs, lease)
	c.Skew.AddFlags(fs)
	fs.StringVar(&c.BindAddress, "bind-address", "0.0.0.0", "Address that serves health and metrics.")
	fs.IntVar(&c.SecurePort, "secure-port", 10259, "Port that serves health and metrics over TLS; 0 serves none.")
	c.Serving.AddFlags(fs)
	c.Serving.Metrics.AddFlags(fs)
	c.Profiling = profiles.Options{On: true, Contention: true}
	c.Profiling.AddFlags(fs)
	c.Access = delegated.Default()
	c.Access.TolerateLookupFailure = true
	c.Access.AddFlags(fs)
	fs.StringVar(&c.WriteConfigTo, "write-config-to", c.WriteConfigTo,
		"File that the configuration is written to, instead of scheduling.")
	fs.DurationVar(&c.MaxUnschedulable, "pod-max-in-unschedulable-pods-duration", maxUnschedulable,
		"How long a pod stays unschedulable before it is retried without an event.")
	fs.Var(&c.gates, "feature-gates", "Feature gates as name=true|false,...; those that can be set: "+
		strings.Join(slices.Sorted(maps.Keys(switchable())), ", "))
	c.changed = fs.Changed
	c.CommandLine = zpages.Flags(fs)
}

const lease = "kube-scheduler"

// DefaultLeader is the leader election of upstream's scheduler, for a Config that is made in Go.
func DefaultLeader() leader.Config { return leader.Default(lease) }
