package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/google/pprof/profile"
)

const (
	// mostNodes is the aim of the project, leastNodes a size below which fractions tell nothing.
	mostNodes, leastNodes = 5000, 80
	// nodeMemory and podMemory are what a node and a pod are taken to need of the machine, in bytes, by whose half the
	// largest cluster is sized.
	nodeMemory, podMemory = 1 << 20, 64 << 10
	// replicas is the size of the deployments that the pods belong to.
	replicas = 1000
	// scaleTimeout bounds each wait for a cluster: the largest are slow on small machines.
	scaleTimeout = 30 * time.Minute
)

// fractions of the largest cluster that are measured.
var fractions = []struct {
	name string
	of   int
}{{"1/8", 8}, {"1/4", 4}, {"1/2", 2}, {"whole", 1}}

// Fractions are the names of the fractions that are measured, the smallest first.
func Fractions() []string {
	names := make([]string, len(fractions))
	for i := range fractions {
		names[i] = fractions[i].name
	}
	return names
}

func scaleInMemory(ctx context.Context, o Options) ([]Measure, error) { return scale(ctx, o, "memory") }
func scaleOnEtcd(ctx context.Context, o Options) ([]Measure, error)   { return scale(ctx, o, "etcd3") }

// scale measures how costs grow with a cluster of hollow nodes: each of the cluster's sizes in a process of its own,
// against the one of half its size. What is proportional grows 2 times.
func scale(ctx context.Context, o Options, store string) ([]Measure, error) {
	nodes, err := o.largest()
	if err != nil {
		return nil, err
	}
	var all []Measure
	var before []Measure
	smaller := ""
	first := max(0, slices.Index(Fractions(), o.From))
	for _, f := range fractions[first:] {
		size := nodes / f.of
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, "  %d hollow nodes, %d pods, store %s\n", size, size*o.PodsPerNode, store)
		}
		measures, err := scaled(ctx, o, store, size)
		if err != nil {
			return all, fmt.Errorf("%d nodes: %w", size, err)
		}
		now := slices.Clone(measures)
		if before != nil {
			now = append(now, eachNode(before, now))
			measures = slices.Clone(now)
		}
		for i := range now {
			measures[i].Name = fmt.Sprintf("%s, %s", measures[i].Name, f.name)
			if at := slices.IndexFunc(before, func(m Measure) bool { return m.Name == now[i].Name }); at >= 0 {
				measures[i].Limit, measures[i].Against = before[at].Value, smaller
			}
		}
		all, before, smaller = append(all, measures...), now, "at "+f.name
		if f.name == o.Until {
			break
		}
	}
	return all, nil
}

// The measures that tell what each node takes.
const (
	nodesMeasure    = "nodes"
	residentMeasure = "resident, nodes without pods"
	peakMeasure     = "peak resident"
)

// eachNode is what each node takes that a cluster has more than a smaller one.
func eachNode(smaller, larger []Measure) Measure {
	more := func(name string) float64 { return valueOf(larger, name) - valueOf(smaller, name) }
	return Measure{Name: "resident, each further node", Value: more(residentMeasure) / more(nodesMeasure), Unit: "MiB",
		Aim: "≤ 1 MiB"}
}

// valueOf finds a measure by its name.
func valueOf(measures []Measure, name string) float64 {
	return measures[slices.IndexFunc(measures, func(m Measure) bool { return m.Name == name })].Value
}

// largest is how many nodes the largest cluster has: as many as the half of the machine's memory is enough for, and no
// more than the project aims at.
func (o Options) largest() (int, error) {
	if o.Nodes > 0 {
		return o.Nodes, nil
	}
	memory, err := machineMemory()
	return max(leastNodes, min(mostNodes, int(memory/2)/(nodeMemory+o.PodsPerNode*podMemory))), err
}

// scaled measures one cluster, from its start to its end.
func scaled(ctx context.Context, o Options, store string, nodes int) ([]Measure, error) {
	ctx, cancel := context.WithTimeout(ctx, scaleTimeout)
	defer cancel()
	c, err := startHollow(ctx, o, store, nodes)
	if err != nil {
		return nil, err
	}
	defer c.close()
	started, err := c.toll(ctx)
	if err != nil {
		return nil, err
	}
	all := []Measure{
		{Name: nodesMeasure, Value: float64(nodes), Unit: "nodes"},
		{Name: "nodes ready", Value: c.ready.Seconds(), Unit: "s"},
		{Name: residentMeasure, Value: started.resident, Unit: "MiB"},
		{Name: "CPU to ready, each node", Value: milliseconds(started.cpu) / float64(nodes), Unit: "ms"},
		{Name: "goroutines, each node", Value: started.goroutines / float64(nodes), Unit: "each"},
	}
	pods := nodes * o.PodsPerNode
	filling, err := c.fill(ctx, pods, o.Profiles)
	if err != nil {
		return nil, err
	}
	emptying, err := c.drain(ctx, pods, o.Profiles)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := c.end(ctx); err != nil {
		return nil, err
	}
	all = append(append(all, filling...), emptying...)
	return append(all, Measure{Name: "gone", Value: time.Since(begin).Seconds(), Unit: "s"}), nil
}

// fill measures how pods come to be ready. It keeps a profile of that in the folder profiles, unless that is "".
func (c *hollowCluster) fill(ctx context.Context, pods int, profiles string) ([]Measure, error) {
	before, after, profile, err := c.profiled(ctx, profileLength, func() error {
		if err := c.makeSpace(ctx); err != nil {
			return err
		}
		return c.deploy(ctx, pods, replicas)
	})
	if err != nil {
		return nil, err
	}
	peak, err := peakResident(c.pid())
	if err != nil {
		return nil, err
	}
	n := float64(pods)
	all := []Measure{
		{Name: "pods to ready", Value: n / after.at.Sub(before.at).Seconds(), Unit: frequency, Aim: "≥ 1000/s"},
		{Name: peakMeasure, Value: peak, Unit: "MiB", Aim: "≤ 12 GiB at 5,000 nodes, 150,000 pods"},
		{Name: "resident, each pod", Value: (after.resident - before.resident) * 1024 / n, Unit: "KiB"},
		{Name: "goroutines, each pod", Value: (after.goroutines - before.goroutines) / n, Unit: "each"},
		{Name: "allocated, each pod", Value: (after.allocated - before.allocated) / 1024 / n, Unit: "KiB"},
		{Name: "objects allocated, each pod", Value: (after.objects - before.objects) / n, Unit: "each"},
	}
	each := milliseconds(after.cpu-before.cpu) / n
	all = append(all, Measure{Name: "CPU, each pod", Value: each, Unit: "ms", Aim: "≤ 2 ms"})
	all = append(all, after.asked(before, n)...)
	return append(all, byComponent("CPU, each pod", each, profile)...), c.keep(profile, profiles, "filling")
}

// drain measures how pods go with their namespace, as fill does how they come.
func (c *hollowCluster) drain(ctx context.Context, pods int, profiles string) ([]Measure, error) {
	before, after, profile, err := c.profiled(ctx, profileLength, func() error { return c.empty(ctx) })
	if err != nil {
		return nil, err
	}
	n := float64(pods)
	each := milliseconds(after.cpu-before.cpu) / n
	all := []Measure{
		{Name: "pods gone with their namespace", Value: n / after.at.Sub(before.at).Seconds(), Unit: frequency},
		{Name: "CPU, each pod gone", Value: each, Unit: "ms"},
	}
	return append(all, byComponent("CPU, each pod gone", each, profile)...), c.keep(profile, profiles, "emptying")
}

// byComponent divides a measure by the components in a profile; nothing comes of a nil one.
func byComponent(name string, whole float64, p *profile.Profile) []Measure {
	var all []Measure
	if p != nil {
		for _, s := range shares(p) {
			all = append(all, Measure{Name: name + ": " + s.component, Value: whole * s.part, Unit: "ms"})
		}
	}
	return all
}

// keep writes a profile into a folder, if there is one and its name isn't "".
func (c *hollowCluster) keep(p *profile.Profile, dir, of string) error {
	if p == nil || dir == "" {
		return nil
	}
	return keepProfile(p, dir, fmt.Sprintf("scale-%d-nodes-%s.pprof", c.nodes, of))
}

// appears waits for a file that the program writes, and returns the time since the program started.
func (p *process) appears(ctx context.Context, file string) (time.Duration, error) {
	err := p.poll(ctx, func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	return time.Since(p.started), err
}

// end asks the program to end, and waits for it.
func (p *process) end(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-p.exited:
		p.exited <- err
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s does not end: %w", p.name, ctx.Err())
	}
}
