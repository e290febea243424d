package scheduler

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	componentv1alpha1 "k8s.io/component-base/config/v1alpha1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/plugins"
	"quintet.dev/quintet/components/scheduler/plugins/schedulinggates"
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
		Parallelism:              ptr.To[int32](upstreamParallelism), // the only one that a file may ask for
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
	for _, entry := range plugins.Default() {
		at := slices.IndexFunc(chosen, func(p Plugin) bool { return p.Name == entry.Name })
		if at < 0 || entry.Whole == nil {
			continue
		}
		args := entry.Whole(chosen[at].Args)
		args.GetObjectKind().SetGroupVersionKind(configv1.SchemeGroupVersion.WithKind(entry.Name + "Args"))
		out.PluginConfig = append(out.PluginConfig, configv1.PluginConfig{Name: entry.Name, Args: runtime.RawExtension{Object: args}})
	}
	slices.SortFunc(out.PluginConfig, func(a, b configv1.PluginConfig) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// pluginsOf lists what is on, between what always is, and what of it isn't used at each point.
func pluginsOf(chosen []Plugin) *configv1.Plugins {
	out := &configv1.Plugins{}
	all := &out.MultiPoint
	entries := plugins.Default()
	if !slices.EqualFunc(chosen, entries, func(p Plugin, e plugins.Entry) bool { return p.Name == e.Name }) {
		all.Disabled = []configv1.Plugin{shown("*", 0)}
	}
	for _, p := range chosen {
		weight := p.Weight
		for _, e := range entries {
			if weight == 0 && e.Name == p.Name {
				weight = e.Weight
			}
		}
		all.Enabled = append(all.Enabled, shown(p.Name, weight))
	}
	first := 0
	if len(chosen) > 0 && chosen[0].Name == schedulinggates.Name {
		first = 1
	}
	all.Enabled = append(slices.Insert(all.Enabled, first, shown("PrioritySort", 0)), shown("DefaultBinder", 0))
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
				point.set.Disabled = append(point.set.Disabled, shown(p.Name, 0))
			}
		}
	}
	return out
}

// shown is a plug-in in a set. Its weight is told even if it has none, as upstream does.
func shown(name string, weight int64) configv1.Plugin {
	return configv1.Plugin{Name: name, Weight: ptr.To(int32(weight))}
}
