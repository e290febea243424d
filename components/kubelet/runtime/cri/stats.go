package cri

import (
	"context"
	"os"
	"path/filepath"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

var (
	_ runtime.Statistics = (*Engine)(nil)
	_ runtime.Disks      = (*Engine)(nil)
	_ runtime.LogFiles   = (*Engine)(nil)
)

// Stats implements runtime.Statistics.
func (e *Engine) Stats(ctx context.Context, id string) (_ runtime.Usage, err error) {
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	sandbox, err := e.isSandbox(ctx, id)
	if err != nil {
		return runtime.Usage{}, err
	}
	if sandbox {
		return e.sandboxStats(ctx, id)
	}
	defer e.observe("container_stats", &err)()
	answer, err := e.runtime.ContainerStats(ctx, &cri.ContainerStatsRequest{ContainerId: id})
	if err != nil {
		return runtime.Usage{}, mark(err)
	}
	return usage(answer.GetStats().GetCpu(), answer.GetStats().GetMemory(), answer.GetStats().GetSwap()), nil
}

// sandboxStats are what a pod's containers use together, and its network: what the sandbox itself uses is next to
// nothing, and engines don't tell it.
func (e *Engine) sandboxStats(ctx context.Context, id string) (_ runtime.Usage, err error) {
	defer e.observe("podsandbox_stats", &err)()
	answer, err := e.runtime.PodSandboxStats(ctx, &cri.PodSandboxStatsRequest{PodSandboxId: id})
	if err != nil {
		return runtime.Usage{}, mark(err)
	}
	pod := answer.GetStats().GetLinux()
	used := usage(pod.GetCpu(), pod.GetMemory(), nil)
	used.Processes = pod.GetProcess().GetProcessCount().GetValue()
	used.Networks = networks(pod.GetNetwork())
	return used, nil
}

func usage(cpu *cri.CpuUsage, memory *cri.MemoryUsage, swap *cri.SwapUsage) runtime.Usage {
	return runtime.Usage{
		CPU:             time.Duration(cpu.GetUsageCoreNanoSeconds().GetValue()),
		MemoryBytes:     memory.GetUsageBytes().GetValue(),
		WorkingSetBytes: memory.GetWorkingSetBytes().GetValue(),
		At:              at(max(cpu.GetTimestamp(), memory.GetTimestamp())),
		RSSBytes:        memory.GetRssBytes().GetValue(),
		SwapBytes:       swap.GetSwapUsageBytes().GetValue(),
		PageFaults:      memory.GetPageFaults().GetValue(),
		MajorPageFaults: memory.GetMajorPageFaults().GetValue(),
	}
}

func networks(told *cri.NetworkUsage) []runtime.NetworkUsage {
	var all []runtime.NetworkUsage
	for _, n := range append([]*cri.NetworkInterfaceUsage{told.GetDefaultInterface()}, told.GetInterfaces()...) {
		if n == nil {
			continue
		}
		all = append(all, runtime.NetworkUsage{Name: n.GetName(),
			RxBytes: n.GetRxBytes().GetValue(), RxErrors: n.GetRxErrors().GetValue(),
			TxBytes: n.GetTxBytes().GetValue(), TxErrors: n.GetTxErrors().GetValue()})
	}
	return all
}

// Disk implements runtime.Disks.
func (e *Engine) Disk(ctx context.Context, id string) (_ runtime.DiskUsage, err error) {
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	sandbox, err := e.isSandbox(ctx, id)
	if err != nil || sandbox { // which writes nothing
		return runtime.DiskUsage{}, err
	}
	defer e.observe("container_stats", &err)()
	answer, err := e.runtime.ContainerStats(ctx, &cri.ContainerStatsRequest{ContainerId: id})
	if err != nil {
		return runtime.DiskUsage{}, mark(err)
	}
	used := runtime.DiskUsage{Written: int64(answer.GetStats().GetWritableLayer().GetUsedBytes().GetValue())}
	attributes := answer.GetStats().GetAttributes()
	path := filepath.Join(podLogs(e.options.LogDir, podOf(attributes.GetLabels())),
		logFile(attributes.GetMetadata().GetName(), int(attributes.GetMetadata().GetAttempt())))
	files, err := filepath.Glob(path + "*") // those that were rotated have other endings
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			used.Logs += info.Size()
		}
	}
	return used, err
}
