package scheduler

import (
	"fmt"
	"os"
	"reflect"
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
	if err := unsupported(file); err != nil {
		return err
	}
	override(c, "kubeconfig", &c.Kubeconfig, file.ClientConnection.Kubeconfig)
	override(c, "kube-api-qps", &c.QPS, file.ClientConnection.QPS)
	override(c, "kube-api-burst", &c.Burst, int(file.ClientConnection.Burst))
	c.applyLeader(&file.LeaderElection)
	if p := file.EnableProfiling; p != nil && !c.given("profiling") {
		c.Profiling.On = *p
	}
	if p := file.EnableContentionProfiling; p != nil && !c.given("contention-profiling") {
		c.Profiling.Contention = *p
	}
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
	for i := range file.Profiles {
		p, err := readProfile(&file.Profiles[i])
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

// override takes the file's value unless it says nothing or the flag was given.
func override[T comparable](c *Config, flag string, to *T, value T) {
	var nothing T
	if value != nothing && !c.given(flag) {
		*to = value
	}
}

func (c *Config) given(flag string) bool { return c.changed != nil && c.changed(flag) }

// upstreamParallelism is upstream's default, which files written for it may spell out.
const upstreamParallelism = 16

// unsupported names the first field that would have no effect.
func unsupported(file *configv1.KubeSchedulerConfiguration) error {
	set := []struct {
		field string
		is    bool
	}{
		{"extenders", len(file.Extenders) > 0},
		{"delayCacheUntilActive", file.DelayCacheUntilActive},
		{"clientConnection.acceptContentTypes", file.ClientConnection.AcceptContentTypes != ""},
		{"clientConnection.contentType", file.ClientConnection.ContentType != "" && file.ClientConnection.ContentType != runtime.ContentTypeProtobuf},
		{"parallelism", file.Parallelism != nil && *file.Parallelism != upstreamParallelism}, // a cycle needs one core
	}
	for _, s := range set {
		if s.is {
			return fmt.Errorf("%s: this value is not supported", s.field)
		}
	}
	return nil
}

func readProfile(file *configv1.KubeSchedulerProfile) (Profile, error) {
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
	chosen, err := choose(file.Plugins)
	if err != nil {
		return p, fmt.Errorf("plugins.%w", err)
	}
	p.Plugins = chosen
	for i := range file.PluginConfig {
		config := &file.PluginConfig[i]
		if config.Args.Object == nil {
			return p, fmt.Errorf("pluginConfig[%d]: plug-in %q is not supported or takes no arguments", i, config.Name)
		}
		at := slices.IndexFunc(chosen, func(c Plugin) bool { return c.Name == config.Name })
		if at < 0 {
			return p, fmt.Errorf("pluginConfig[%d]: plug-in %q is not enabled", i, config.Name)
		}
		p.Plugins[at].Args = config.Args.Object
	}
	return p, nil
}

// pluginSets are the plug-in sets by their names in the file.
func pluginSets(p *configv1.Plugins) map[string]configv1.PluginSet {
	named := map[string]configv1.PluginSet{}
	value, fields := reflect.ValueOf(*p), reflect.TypeFor[configv1.Plugins]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		named[string(name[0]|0x20)+name[1:]] = value.Field(i).Interface().(configv1.PluginSet)
	}
	return named
}
