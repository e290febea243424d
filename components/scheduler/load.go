package scheduler

import (
	"fmt"
	"os"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	componentv1alpha1 "k8s.io/component-base/config/v1alpha1"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// load reads File; flags that were given win over it.
func (c *Config) load() error {
	data, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	file, err := decode(data)
	if err != nil {
		return err
	}
	return c.apply(file)
}

// decode is strict: a field that does not exist is an error that names it.
func decode(data []byte) (*configv1.KubeSchedulerConfiguration, error) {
	scheme := runtime.NewScheme()
	if err := configv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	obj, gvk, err := decoder.Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	file, ok := obj.(*configv1.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("is a %s, not a KubeSchedulerConfiguration", gvk.Kind)
	}
	return file, file.DecodeNestedObjects(decoder)
}

func (c *Config) apply(file *configv1.KubeSchedulerConfiguration) error {
	override(c, "kubeconfig", &c.Kubeconfig, file.ClientConnection.Kubeconfig)
	override(c, "kube-api-content-type", &c.ContentType, file.ClientConnection.ContentType)
	c.AcceptContentTypes = file.ClientConnection.AcceptContentTypes
	override(c, "kube-api-qps", &c.QPS, file.ClientConnection.QPS)
	override(c, "kube-api-burst", &c.Burst, int(file.ClientConnection.Burst))
	c.applyLeader(&file.LeaderElection)
	if p := file.EnableProfiling; p != nil && !c.given("profiling") {
		c.Profiling.On = *p
	}
	if p := file.EnableContentionProfiling; p != nil && !c.given("contention-profiling") {
		c.Profiling.Contention = *p
	}
	if n := file.Parallelism; n != nil {
		if *n <= 0 {
			return fmt.Errorf("parallelism: %d is not positive", *n)
		}
		c.Parallelism = int(*n)
	}
	c.DelayCacheUntilActive = file.DelayCacheUntilActive
	if file.PercentageOfNodesToScore != nil {
		c.Percentage = int(*file.PercentageOfNodesToScore)
	}
	if s := file.PodInitialBackoffSeconds; s != nil {
		if *s <= 0 {
			return fmt.Errorf("podInitialBackoffSeconds: %d is not positive", *s)
		}
		c.InitialBackoff = time.Duration(*s) * time.Second
	}
	if s := file.PodMaxBackoffSeconds; s != nil {
		c.MaxBackoff = time.Duration(*s) * time.Second
	}
	c.Extenders = file.Extenders
	for i := range file.Profiles {
		p, err := c.readProfile(&file.Profiles[i])
		if err != nil {
			return fmt.Errorf("profiles[%d].%w", i, err)
		}
		c.Profiles = append(c.Profiles, p)
	}
	return nil
}

func (c *Config) applyLeader(file *componentv1alpha1.LeaderElectionConfiguration) {
	if file.LeaderElect != nil {
		override(c, "leader-elect", &c.Leader.Elect, *file.LeaderElect)
		if !*file.LeaderElect && !c.given("leader-elect") {
			c.Leader.Elect = false
		}
	}
	override(c, "leader-elect-lease-duration", &c.Leader.LeaseDuration, file.LeaseDuration.Duration)
	override(c, "leader-elect-renew-deadline", &c.Leader.RenewDeadline, file.RenewDeadline.Duration)
	override(c, "leader-elect-retry-period", &c.Leader.RetryPeriod, file.RetryPeriod.Duration)
	override(c, "leader-elect-resource-lock", &c.Leader.ResourceLock, file.ResourceLock)
	override(c, "leader-elect-resource-name", &c.Leader.ResourceName, file.ResourceName)
	override(c, "leader-elect-resource-namespace", &c.Leader.ResourceNamespace, file.ResourceNamespace)
}

// override takes the file's value unless it is unset or the flag was given.
func override[T comparable](c *Config, flag string, to *T, value T) {
	var nothing T
	if value != nothing && !c.given(flag) {
		*to = value
	}
}

func (c *Config) given(flag string) bool { return c.changed != nil && c.changed(flag) }

// upstreamParallelism is upstream's default, which files written for it may spell out.
const upstreamParallelism = 16

func (c *Config) readProfile(file *configv1.KubeSchedulerProfile) (Profile, error) {
	p := Profile{Name: v1.DefaultSchedulerName}
	if file.SchedulerName != nil {
		p.Name = *file.SchedulerName
	}
	if file.PercentageOfNodesToScore != nil {
		p.Percentage = int(*file.PercentageOfNodesToScore)
		if p.Percentage < 0 || p.Percentage > 100 {
			return p, fmt.Errorf("percentageOfNodesToScore: %d is not in 0-100", p.Percentage)
		}
	}
	chosen, first, err := c.choose(file.Plugins)
	if err != nil {
		return p, fmt.Errorf("plugins.%w", err)
	}
	p.Plugins, p.First = chosen, first
	for i := range file.PluginConfig {
		config := &file.PluginConfig[i]
		if !c.known(config.Name) || isDefault(config.Name) && config.Args.Object == nil {
			return p, fmt.Errorf("pluginConfig[%d]: plug-in %q is not supported or takes no arguments", i, config.Name)
		}
		if slices.ContainsFunc(file.PluginConfig[:i], func(b configv1.PluginConfig) bool { return b.Name == config.Name }) {
			return p, fmt.Errorf("pluginConfig[%d]: repeated config for plugin %s", i, config.Name)
		}
		at := slices.IndexFunc(chosen, func(c Plugin) bool { return c.Name == config.Name })
		if at < 0 {
			continue // arguments of a plug-in that is off have no effect, as upstream has it
		}
		p.Plugins[at].Args = config.Args.Object
		if config.Args.Object == nil {
			p.Plugins[at].Args = &runtime.Unknown{Raw: config.Args.Raw, ContentType: runtime.ContentTypeJSON}
		}
	}
	return p, nil
}
