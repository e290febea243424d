package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/cluster/owner"
	"quintet.dev/quintet/internal/footprint"
)

// memberCheck is how often a cluster in this process is looked at for members that ended.
const memberCheck = time.Second

func (a *app) runUp(ctx context.Context, f upFlags, given func(flag string) bool) error {
	opts, err := f.options(given)
	if err != nil {
		return err
	}
	name := a.name
	if f.config != "" {
		file, err := cluster.LoadConfig(f.config)
		if err != nil {
			return err
		}
		opts = append([]cluster.Option{file.Option()}, opts...)
		name = cmp.Or(name, file.Name())
		f.inProcess = f.inProcess || file.InProcess()
	}
	e := entry{Name: cmp.Or(name, defaultName), InProcess: f.inProcess}
	if err := a.claim(ctx, &e); err != nil {
		return err
	}
	if !f.inProcess {
		redirectLogs(io.Discard)
		_, err := a.start(ctx, e, f, append(opts, cluster.Detached()))
		return err
	}
	return errors.Join(a.runInProcess(ctx, e, f, append(opts, cluster.InProcess())), a.state.remove(e.Name))
}

// runInProcess runs a cluster in this process until ctx ends.
func (a *app) runInProcess(ctx context.Context, e entry, f upFlags, opts []cluster.Option) error {
	file, err := os.OpenFile(a.state.log(e.Name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	redirectLogs(file)
	defer redirectLogs(io.Discard)
	footprint.Bound()
	c, err := a.start(ctx, e, f, opts)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.err, "\nThe cluster is this process; interrupt it (Ctrl-C) to end it. Its libraries log to %s\n",
		file.Name())
	a.watchMembers(ctx, c)
	return c.Stop(context.WithoutCancel(ctx))
}

// start starts a cluster and prints how to use it.
func (a *app) start(ctx context.Context, e entry, f upFlags, opts []cluster.Option) (*cluster.Cluster, error) {
	began := time.Now()
	launch := cluster.Start
	if f.from != "" {
		snapshot, err := cluster.LoadSnapshot(f.from)
		if err != nil {
			return nil, fmt.Errorf("--from: %w", err)
		}
		launch = snapshot.Start
	}
	c, err := launch(ctx, append(opts, cluster.WithName(e.Name), cluster.WithProgress(a.progress()),
		cluster.WithTimeout(f.timeout))...)
	if err != nil {
		return nil, err
	}
	e.Scheduler, e.Merged = c.SchedulerURL(), c.MergedInto()
	if err := a.state.save(e, c.Kubeconfig()); err != nil {
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	fmt.Fprintf(a.err, "Cluster %s is ready after %.1f s.\n", e.Name, time.Since(began).Seconds())
	suffix := ""
	if e.Name != defaultName {
		suffix = " --name " + e.Name
	}
	if e.Merged != "" {
		fmt.Fprintf(a.err, "\n%s has the context %s, which is the current one.\n", e.Merged, cluster.ContextName(e.Name))
	}
	fmt.Fprintf(a.err, "\n  quintet%s kubectl get nodes\n  export KUBECONFIG=%s\n", suffix, a.state.kubeconfig(e.Name))
	if !e.InProcess {
		fmt.Fprintf(a.err, "  quintet down%s\n", suffix)
	}
	return c, nil
}

// claim fails if a cluster of e's name exists in another process, or, for one in this process, in containers. It
// records the latter, so that of concurrent in-process starts one continues. Starts in containers exclude each other by
// the engine.
func (a *app) claim(ctx context.Context, e *entry) error {
	if e.InProcess && a.state.hasContainers(e.Name) {
		names, err := cluster.Names(ctx)
		if err != nil {
			return fmt.Errorf("is there a cluster %s of containers? %w", e.Name, err)
		}
		if slices.Contains(names, e.Name) {
			return fmt.Errorf("there is a cluster %s of containers; choose another --name, or remove it: quintet down --name %s",
				e.Name, e.Name)
		}
	}
	self, err := owner.Self()
	if err != nil {
		return err
	}
	return a.state.exclusively(func() error {
		entries, err := a.state.living()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(entries, func(other entry) bool { return other.Name == e.Name }) {
			return fmt.Errorf("a cluster %s runs in another process; choose another --name, or end it: quintet down --name %s",
				e.Name, e.Name)
		}
		if !e.InProcess {
			return nil
		}
		e.Owner = self
		return a.state.write(*e, nil)
	})
}

// watchMembers reports members that ended, until ctx ends. No command stops a member of a cluster in a process, so that
// each such end is a failure.
func (a *app) watchMembers(ctx context.Context, c *cluster.Cluster) {
	ticker := time.NewTicker(memberCheck)
	defer ticker.Stop()
	ended := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, m := range c.Members() {
			state, err := m.State(ctx)
			if err == nil && !state.Running && !ended[m.Name()] && ctx.Err() == nil {
				ended[m.Name()] = true
				fmt.Fprintf(a.err, "  ! %s ended: %s\n", m.Name(), state.Error)
			}
		}
	}
}

// redirectLogs sends to w what libraries log through no logger of a member's own. The terminal shows what this program
// says.
func redirectLogs(w io.Writer) {
	klog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(w))))
	log.SetOutput(w)
}

// progress prints a line per step.
func (a *app) progress() func(cluster.Event) {
	return func(e cluster.Event) {
		switch {
		case e.Notice != "":
			fmt.Fprintln(a.err, "  -", e.Notice)
		case e.Done && e.Err == nil:
			fmt.Fprintf(a.err, "  + %-26s %.2f s\n", e.Step, e.Took.Seconds())
		case e.Done:
			fmt.Fprintf(a.err, "  ! %-26s %.2f s\n", e.Step, e.Took.Seconds())
		}
	}
}
