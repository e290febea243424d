package scheduler

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	componentv1alpha1 "k8s.io/component-base/config/v1alpha1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/plugins"
)

// configz is the name of the configuration in the answer of /configz.
const configz = "componentconfig"

// configuration tells what c comes to in the form of its file: who reads that gets c. What has no effect here is left out.
func (c *Config) configuration() *configv1.KubeSchedulerConfiguration {
	out := &configv1.KubeSchedulerConfiguration{
		TypeMeta: metav1.TypeMeta{Kind: "KubeSchedulerConfiguration", APIVersion: configv1.SchemeGroupVersion.String()},
		LeaderElection: componentv1alpha1.LeaderElectionConfiguration{
			LeaderElect:       ptr.To(c.Leader.Elect),
			LeaseDuration:     metav1.Duration{Duration: c.Leader.LeaseDuration},
			RenewDeadline:     metav1.Duration{Duration: c.Leader.RenewDeadline},
			RetryPeriod:       metav1.Duration{Duration: c.Leader.RetryPeriod},
			ResourceLock:      c.Leader.ResourceLock,
			ResourceName:      c.Leader.ResourceName,
			ResourceNamespace: c.Leader.ResourceNamespace,
		},
		ClientConnection: componentv1alpha1.ClientConnectionConfiguration{
			Kubeconfig: c.Kubeconfig, ContentType: runtime.ContentTypeProtobuf, QPS: -1,
		},
		DebuggingConfiguration: componentv1alpha1.DebuggingConfiguration{
			EnableProfiling: ptr.To(c.Profiling.On), EnableContentionProfiling: ptr.To(c.Profiling.Contention),
		},
		PercentageOfNodesToScore: ptr.To(int32(c.Percentage)),
		PodInitialBackoffSeconds: seconds(c.InitialBackoff),
		PodMaxBackoffSeconds:     seconds(c.MaxBackoff),
	}
	if c.QPS > 0 {
		out.ClientConnection.QPS, out.ClientConnection.Burst = c.QPS, int32(c.Burst)
	}
	for i := range c.Profiles {
		out.Profiles = append(out.Profiles, c.Profiles[i].configuration())
	}
	return out
}

// seconds are nil for a time that can't be told in them.
func seconds(d time.Duration) *int64 {
	if d%time.Second != 0 {
		return nil
	}
	return ptr.To(int64(d / time.Second))
}

func (p *Profile) configuration() configv1.KubeSchedulerProfile {
	chosen := p.Plugins
	if chosen == nil {
		chosen = defaults()
	}
	out := configv1.KubeSchedulerProfile{SchedulerName: &p.Name, Plugins: pluginsOf(chosen)}
	if p.Percentage != 0 {
		out.PercentageOfNodesToScore = ptr.To(int32(p.Percentage))
	}
	for _, plugin := range chosen {
		args, ok := plugin.Args.(runtime.Object)
		if !ok {
			continue
		}
		args = args.DeepCopyObject()
		args.GetObjectKind().SetGroupVersionKind(configv1.SchemeGroupVersion.WithKind(plugin.Name + "Args"))
		out.PluginConfig = append(out.PluginConfig, configv1.PluginConfig{Name: plugin.Name, Args: runtime.RawExtension{Object: args}})
	}
	return out
}

// pluginsOf lists what is on, between what always is, and what of it isn't used at each point.
func pluginsOf(chosen []Plugin) *configv1.Plugins {
	out := &configv1.Plugins{}
	all := &out.MultiPoint
	entries := plugins.Default()
	if !slices.EqualFunc(chosen, entries, func(p Plugin, e plugins.Entry) bool { return p.Name == e.Name }) {
		all.Disabled = []configv1.Plugin{{Name: "*"}}
	}
	all.Enabled = []configv1.Plugin{{Name: "PrioritySort"}}
	for _, p := range chosen {
		weight := p.Weight
		for _, e := range entries {
			if weight == 0 && e.Name == p.Name {
				weight = e.Weight
			}
		}
		on := configv1.Plugin{Name: p.Name}
		if weight != 0 {
			on.Weight = ptr.To(int32(weight))
		}
		all.Enabled = append(all.Enabled, on)
	}
	all.Enabled = append(all.Enabled, configv1.Plugin{Name: "DefaultBinder"})
	for _, point := range []struct {
		set *configv1.PluginSet
		off func(Points) bool
	}{
		{&out.PreEnqueue, func(p Points) bool { return p.PreEnqueue }},
		{&out.Filter, func(p Points) bool { return p.Filter }},
		{&out.PostFilter, func(p Points) bool { return p.PostFilter }},
		{&out.Score, func(p Points) bool { return p.Score }},
	} {
		for _, p := range chosen {
			if point.off(p.Skip) {
				point.set.Disabled = append(point.set.Disabled, configv1.Plugin{Name: p.Name})
			}
		}
	}
	return out
}
