package scheduler

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/scheduler/commit"
	"quintet.dev/quintet/components/scheduler/framework"
	"quintet.dev/quintet/components/scheduler/snapshot"
	"quintet.dev/quintet/internal/informer"
)

// PluginFactory makes a plug-in of a user, as for upstream's scheduler. args is a *runtime.Unknown with what the
// configuration has for it, or nil.
type PluginFactory = framework.Factory

// Option changes a Config.
type Option func(*Config)

// WithPlugin registers a plug-in that is written over k8s.io/kube-scheduler/framework. As upstream, it is used where
// the plugins of a profile enable it; a Profile without Plugins, as the default one, has it at all its extension
// points.
func WithPlugin(name string, factory PluginFactory) Option {
	return func(c *Config) {
		if c.plugins == nil {
			c.plugins = map[string]PluginFactory{}
		}
		if _, ok := c.plugins[name]; !ok {
			c.pluginNames = append(c.pluginNames, name)
		}
		c.plugins[name] = factory
	}
}

// WithProfiles adds profiles.
func WithProfiles(profiles ...Profile) Option {
	return func(c *Config) { c.Profiles = append(c.Profiles, profiles...) }
}

// Apply changes a Config by options.
func (c *Config) Apply(options ...Option) {
	for _, option := range options {
		option(c)
	}
}

// newHandles prepares what plug-ins act with.
func (c *Config) newHandles() *framework.Services {
	factory := informer.NewFactory(c.Client, 0, c.trim(), informer.WithSelection(&v1.Pod{}, notEnded))
	factory.InformerFor(&v1.Pod{}, podInformer)
	return &framework.Services{Client: c.Client, Config: c.connection, Informers: factory,
		Waiting: commit.NewWaiting(c.delayed()), Parallelism: c.Parallelism}
}

// Context ends with Run; before it, it is an empty one.
func (s *Scheduler) Context() context.Context {
	if ctx := s.running.Load(); ctx != nil {
		return *ctx
	}
	return context.Background()
}

func (s *Scheduler) logger() klog.Logger { return klog.FromContext(s.Context()) }

// Activate has pods tried as soon as possible.
func (s *Scheduler) Activate(pods []types.UID) { s.queue.Activate(pods) }

// Nominate reserves room on a node for a pod that waits.
func (s *Scheduler) Nominate(p *snapshot.Pod, node string) { s.nominations.set(p, node) }

// RemoveNomination ends it.
func (s *Scheduler) RemoveNomination(uid types.UID) { s.nominations.remove(uid) }

// NominatedOn returns the pods that are nominated to a node.
func (s *Scheduler) NominatedOn(node string) []*snapshot.Pod { return s.nominations.on(node) }

// Recorder records events of a profile; nil before Run.
func (s *Scheduler) Recorder(profile string) events.EventRecorderLogger {
	if recorders := s.recorder.Load(); recorders != nil {
		return (*recorders)[profile]
	}
	return nil
}

// delayed is the clock if it can call functions later, as the real one and that of tests can.
func (c *Config) delayed() clock.WithDelayedExecution {
	if delayed, ok := c.Clock.(clock.WithDelayedExecution); ok {
		return delayed
	}
	return clock.RealClock{}
}
