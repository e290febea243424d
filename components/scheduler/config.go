package scheduler

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/scheduler/extender"
	"quintet.dev/quintet/components/scheduler/framework"
	"quintet.dev/quintet/internal/delegated"
	"quintet.dev/quintet/internal/diagnostics"
	"quintet.dev/quintet/internal/kubeconfig"
	"quintet.dev/quintet/internal/leader"
	"quintet.dev/quintet/internal/profiles"
	"quintet.dev/quintet/internal/release"
)

// Config of a Scheduler. The zero value of a field takes upstream's default, but for those of Leader.
type Config struct {
	// Client reaches the API server. Without it, RESTConfig is used, and without that, the file Kubeconfig.
	Client     kubernetes.Interface
	RESTConfig *rest.Config
	Kubeconfig string
	Master     string // URL of the API server, instead of the one in Kubeconfig
	// ContentType is how built-in objects are encoded on the wire, protobuf if it is empty; AcceptContentTypes, how the
	// API server may encode them.
	ContentType, AcceptContentTypes string
	// Skew is which releases the scheduler behaves as and works with.
	Skew release.Skew
	// QPS and Burst limit requests to the API server; QPS <= 0 does not limit them.
	QPS   float32
	Burst int

	// File is a KubeSchedulerConfiguration v1 (YAML or JSON). Flags take precedence.
	File string
	// Profiles are the schedulers that this one plays; none is the one called default-scheduler.
	Profiles []Profile
	// Percentage of nodes that must be feasible before a search ends; 0 takes a share by the cluster's size.
	Percentage int
	// InitialBackoff (1 s) doubles with every failed try up to MaxBackoff (10 s).
	InitialBackoff, MaxBackoff time.Duration

	// Extenders are processes that take part in decisions.
	Extenders []configv1.Extender

	// Leader elects among replicas. Identity is this one's name; empty makes one up.
	Leader   leader.Config
	Identity string

	// SecurePort of BindAddress serves health and metrics over TLS; 0 serves none. Listener, if not nil, is used
	// instead, and is closed by Run. Without a certificate, a self-signed one is made.
	BindAddress string
	SecurePort  int
	Listener    net.Listener
	Serving     diagnostics.Serving
	Profiling   profiles.Options
	// Access configures authentication and authorization of the serving endpoints.
	Access delegated.Options

	// CommandLine is all flags with their values, for /flagz, which isn't there without.
	CommandLine func() map[string]string

	// Parallelism is how many pieces of work plug-ins of users do at once (16). A decision of our own takes one core.
	Parallelism int
	// MaxUnschedulable (5 min) is how long a pod stays unschedulable before it is retried without an event.
	MaxUnschedulable time.Duration
	// WriteConfigTo is a file that the configuration is written to instead of scheduling.
	WriteConfigTo string
	// DelayCacheUntilActive watches the API server only as the leader.
	DelayCacheUntilActive bool

	// Synced, if not nil, is called when all objects are known that were there at the start.
	Synced func()
	// Writers is how many pods are bound or get their status written at once (128).
	Writers int
	// Seed breaks ties between nodes of equal score.
	Seed uint64
	// Clock is what time it is.
	Clock clock.WithTicker
	// FeatureGates are values of --feature-gates for a scheduler that is made in Go; flags take precedence.
	FeatureGates map[string]bool

	changed func(flag string) bool
	gates   featureGates
	claims  *prometheus.CounterVec // of metrics
	working *prometheus.GaugeVec   // of metrics
	devices *deviceMetrics         // of metrics
	// volumeErrors counts pods whose volumes could not be bound, by the stage.
	volumeErrors *prometheus.CounterVec
	plugins      map[string]framework.Factory // of users, by name
	pluginNames  []string                     // in the order of WithPlugin
	handles      *framework.Services
	connection   *rest.Config // without the content type of our own client
}

// Profile is one scheduler: the pods whose spec.schedulerName is Name are scheduled by Plugins.
type Profile struct {
	Name string
	// Plugins in the order in which they are asked; nil takes those of plugins.Default, and then those of WithPlugin.
	Plugins []Plugin
	// Percentage overrides Config.Percentage if it is not 0.
	Percentage int
	// First are the plug-ins that come first at an extension point, in order.
	First map[Points][]string
}

// Plugin is a plug-in and what it is used for.
type Plugin struct {
	Name string
	// Weight of its score; 0 takes the default.
	Weight int64
	// Args as they are in a KubeSchedulerConfiguration, e.g. *v1.NodeResourcesFitArgs; nil takes the defaults.
	Args any
	// Skip disables some extension points.
	Skip Points
}

func (c *Config) complete() error {
	if c.File != "" {
		if err := c.load(); err != nil {
			return fmt.Errorf("config file %s: %w", c.File, err)
		}
	}
	for name, on := range c.FeatureGates {
		if _, given := c.gates[name]; given {
			continue
		}
		if err := c.gates.Set(fmt.Sprintf("%s=%v", name, on)); err != nil {
			return err
		}
	}
	if len(c.Profiles) == 0 {
		c.Profiles = []Profile{{Name: v1.DefaultSchedulerName}}
	}
	if err := extender.Check(c.Extenders); err != nil {
		return err
	}
	setDefault(&c.ContentType, runtime.ContentTypeProtobuf)
	if t := c.ContentType; t != runtime.ContentTypeProtobuf && t != runtime.ContentTypeJSON {
		return fmt.Errorf("--kube-api-content-type %q: use %s or %s", t, runtime.ContentTypeProtobuf,
			runtime.ContentTypeJSON)
	}
	setDefault(&c.InitialBackoff, time.Second)
	setDefault(&c.MaxBackoff, 10*time.Second)
	setDefault(&c.Writers, 128)
	setDefault(&c.Parallelism, upstreamParallelism)
	setDefault(&c.MaxUnschedulable, maxUnschedulable)
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.MaxBackoff < c.InitialBackoff {
		return fmt.Errorf("the longest back-off %v must not be shorter than the first %v", c.MaxBackoff,
			c.InitialBackoff)
	}
	if c.Percentage < 0 || c.Percentage > 100 {
		return fmt.Errorf("percentageOfNodesToScore: %d is not in 0-100", c.Percentage)
	}
	if err := errors.Join(c.gates.check(), c.Leader.Validate(), c.Access.Validate(), c.Serving.Validate(),
		c.Skew.Validate()); err != nil {
		return err
	}
	if c.Client != nil {
		return nil
	}
	return c.connect()
}

func (c *Config) connect() error {
	config := c.RESTConfig
	if config == nil {
		if c.Kubeconfig == "" && c.Master == "" {
			return errors.New("no API server: give --kubeconfig, or clientConnection.kubeconfig in the file of --config")
		}
		loaded, err := clientcmd.BuildConfigFromFlags(c.Master, c.Kubeconfig)
		if err != nil {
			return fmt.Errorf("kubeconfig %q: %w", c.Kubeconfig, err)
		}
		loaded.QPS = -1
		config = loaded
	}
	c.connection = kubeconfig.AddUserAgent(rest.CopyConfig(config), "kube-scheduler", "kube-scheduler")
	config = kubeconfig.AddUserAgent(rest.CopyConfig(config), "kube-scheduler", "kube-scheduler")
	config.ContentType, config.AcceptContentTypes = c.ContentType, c.AcceptContentTypes
	if config.AcceptContentTypes == "" && config.ContentType == runtime.ContentTypeProtobuf {
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	config.QPS, config.Burst = -1, 0
	if c.QPS > 0 {
		config.QPS, config.Burst = c.QPS, c.Burst
	}
	client, err := kubernetes.NewForConfig(config)
	c.Client = client
	return err
}

func setDefault[T comparable](value *T, to T) {
	var zero T
	if *value == zero {
		*value = to
	}
}
