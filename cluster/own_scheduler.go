package cluster

import (
	"context"
	"errors"
	"net/url"
	"path"

	"quintet.dev/quintet/cluster/internal/backend"
	"quintet.dev/quintet/cluster/internal/inprocess"
	"quintet.dev/quintet/components/scheduler"
)

// WithScheduler runs the scheduler inside this process, made with options: those with which it has plug-ins that are
// written over k8s.io/kube-scheduler/framework (scheduler.WithPlugin). It takes the place of the component, in clusters
// of containers, too, and gets the arguments of WithArgs.
func WithScheduler(options ...scheduler.Option) Option {
	return func(c *config) error {
		c.ownScheduler = true
		c.schedulerOptions = append(c.schedulerOptions, options...)
		return nil
	}
}

// hasLocalScheduler tells whether the scheduler runs in this process beside containers.
func (c *config) hasLocalScheduler() bool { return c.ownScheduler && !c.inProcess }

func (c *config) checkOwnScheduler() error {
	_, image := c.images[Scheduler]
	switch {
	case !c.ownScheduler:
		return nil
	case c.without[Scheduler]:
		return errors.New("a scheduler in this process: the component is left out")
	case image:
		return errors.New("a scheduler in this process: it has no image")
	case c.detached:
		return errors.New("a scheduler in this process: a detached cluster outlives it")
	}
	return nil
}

// startLocalScheduler starts the scheduler in this process for a cluster of containers.
func (s *start) startLocalScheduler(ctx context.Context, started *instances) error {
	c := s.cluster
	if !c.config.hasLocalScheduler() {
		return nil
	}
	local := inprocess.New(inprocess.Config{Cluster: c.config.name,
		Programs: programs(nil, c.config.schedulerOptions, realTime(), nil)})
	c.local = local
	var placements []backend.Placement
	for _, name := range c.config.names(Scheduler) {
		placements = append(placements, backend.Placement{Name: name, Port: schedulerPort})
	}
	addressing, err := local.Prepare(ctx, placements)
	if err != nil {
		return err
	}
	for _, name := range c.config.names(Scheduler) {
		kubeconfig := path.Join(addressing.Dir(name), adminConf)
		l := &layout{config: c.config, addressing: addressing}
		f := newFiles()
		f.add(adminConf, c.kubeconfig, nil)
		f.userFiles(Scheduler, c.config.files[Scheduler])
		if f.err != nil {
			return f.err
		}
		member := backend.Member{Name: name, Component: string(Scheduler), Program: "kube-scheduler", Port: schedulerPort,
			Files: f.content,
			Args: append(l.schedulerArgs(name, kubeconfig, "127.0.0.1"),
				l.userArgs(Scheduler, name, c.config.args[Scheduler])...)}
		s.plan = append(s.plan, member)
		if err := started.start(ctx, local, member); err != nil {
			return err
		}
		c.schedulerURL = schedulerURL(addressing, name)
	}
	return nil
}

func schedulerURL(addressing backend.Addressing, name string) string {
	return (&url.URL{Scheme: "https", Host: addressing.Endpoint(name, schedulerPort)}).String()
}

// SchedulerURL is where the scheduler serves its diagnostics, for use on this machine: /explain/NAMESPACE/POD tells why
// a pod has no node. It is empty for a cluster without a scheduler, and for one that Open took hold of.
func (c *Cluster) SchedulerURL() string { return c.schedulerURL }
