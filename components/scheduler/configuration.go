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
)

// configz is the name of the configuration in the answer of /configz.
const configz = "componentconfig"

// configuration returns c in the format of its file: loading it results in c. Fields without effect in this scheduler
// are left out.
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
			Kubeconfig: c.Kubeconfig, ContentType: c.ContentType, AcceptContentTypes: c.AcceptContentTypes, QPS: -1,
		},
		DebuggingConfiguration: componentv1alpha1.DebuggingConfiguration{
			EnableProfiling: ptr.To(c.Profiling.On), EnableContentionProfiling: ptr.To(c.Profiling.Contention),
		},
		DelayCacheUntilActive:    c.DelayCacheUntilActive,
		Parallelism:              ptr.To(int32(c.Parallelism)),
		PercentageOfNodesToScore: ptr.To(int32(c.Percentage)),
		PodInitialBackoffSeconds: seconds(c.InitialBackoff),
		PodMaxBackoffSeconds:     seconds(c.MaxBackoff),
	}
	if c.QPS > 0 {
		out.ClientConnection.QPS, out.ClientConnection.Burst = c.QPS, int32(c.Burst)
	}
	out.Extenders = c.Extenders
	for i := range c.Profiles {
		out.Profiles = append(out.Profiles, c.profileConfiguration(&c.Profiles[i]))
	}
	return out
}

// seconds returns nil for a duration that is not a whole number of seconds.
func seconds(d time.Duration) *int64 {
	if d%time.Second != 0 {
		return nil
	}
	return ptr.To(int64(d / time.Second))
}

func (c *Config) profileConfiguration(p *Profile) configv1.KubeSchedulerProfile {
	chosen := c.chosen(p)
	out := configv1.KubeSchedulerProfile{SchedulerName: &p.Name, Plugins: pluginsOf(chosen, p.First)}
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
		out.PluginConfig = append(out.PluginConfig,
			configv1.PluginConfig{Name: entry.Name, Args: runtime.RawExtension{Object: args}})
	}
	for _, p := range chosen {
		if args, ok := p.Args.(*runtime.Unknown); ok {
			out.PluginConfig = append(out.PluginConfig,
				configv1.PluginConfig{Name: p.Name, Args: runtime.RawExtension{Raw: args.Raw}})
		}
	}
	slices.SortFunc(out.PluginConfig, func(a, b configv1.PluginConfig) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// pluginsOf lists what is on, what of it isn't used at each point, and what comes first there.
func pluginsOf(chosen []Plugin, first map[Points][]string) *configv1.Plugins {
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
	for i, set := range pointSets(out) {
		for _, p := range chosen {
			if p.Skip&(1<<i) != 0 {
				set.Disabled = append(set.Disabled, shown(p.Name, 0))
			}
		}
		for _, name := range first[1<<i] {
			set.Enabled = append(set.Enabled, shown(name, 0))
		}
	}
	return out
}

// shown is a plug-in in a set. Its weight is included even if it is zero, as upstream does.
func shown(name string, weight int64) configv1.Plugin {
	return configv1.Plugin{Name: name, Weight: ptr.To(int32(weight))}
}
