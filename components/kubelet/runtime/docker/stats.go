package docker

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"quintet.dev/quintet/components/kubelet/runtime"
)

var _ runtime.Statistics = (*Engine)(nil)

// Stats implements runtime.Statistics.
func (e *Engine) Stats(ctx context.Context, id string) (_ runtime.Usage, err error) {
	defer e.observe("container_stats", &err)()
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	answer, err := e.api.ContainerStats(ctx, id, client.ContainerStatsOptions{})
	if err != nil {
		return runtime.Usage{}, mark(err)
	}
	defer answer.Body.Close()
	var sample container.StatsResponse
	if err := json.NewDecoder(answer.Body).Decode(&sample); err != nil {
		return runtime.Usage{}, err
	}
	usage := runtime.Usage{
		CPU:             time.Duration(sample.CPUStats.CPUUsage.TotalUsage),
		MemoryBytes:     sample.MemoryStats.Usage,
		WorkingSetBytes: sample.MemoryStats.Usage,
		At:              sample.Read,
		CPUUser:         time.Duration(sample.CPUStats.CPUUsage.UsageInUsermode),
		CPUSystem:       time.Duration(sample.CPUStats.CPUUsage.UsageInKernelmode),
		Processes:       sample.PidsStats.Current,
	}
	addMemory(&usage, sample.MemoryStats.Stats)
	for _, name := range slices.Sorted(maps.Keys(sample.Networks)) {
		n := sample.Networks[name]
		usage.Networks = append(usage.Networks, runtime.NetworkUsage{
			Name: name, RxBytes: n.RxBytes, RxPackets: n.RxPackets, RxErrors: n.RxErrors, RxDropped: n.RxDropped,
			TxBytes: n.TxBytes, TxPackets: n.TxPackets, TxErrors: n.TxErrors, TxDropped: n.TxDropped,
		})
	}
	return usage, nil
}

// addMemory adds what the control group tells of memory: its names in version 1 come before those in version 2, some of
// which version 1 has with another meaning.
func addMemory(usage *runtime.Usage, stats map[string]uint64) {
	first := func(names ...string) uint64 {
		for _, name := range names {
			if n, ok := stats[name]; ok {
				return n
			}
		}
		return 0
	}
	usage.WorkingSetBytes -= min(first("total_inactive_file", "inactive_file"), usage.WorkingSetBytes)
	usage.RSSBytes = first("total_rss", "anon")
	usage.CacheBytes = first("total_cache", "file")
	usage.SwapBytes = first("total_swap")
	usage.PageFaults = first("total_pgfault", "pgfault")
	usage.MajorPageFaults = first("total_pgmajfault", "pgmajfault")
}

// Disk implements runtime.Disks. Logs that an engine keeps on another machine count as nothing.
func (e *Engine) Disk(ctx context.Context, id string) (_ runtime.DiskUsage, err error) {
	defer e.observe("container_status", &err)()
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	found, err := e.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{Size: true})
	if err != nil {
		return runtime.DiskUsage{}, mark(err)
	}
	var usage runtime.DiskUsage
	if written := found.Container.SizeRw; written != nil {
		usage.Written = *written
	}
	files, err := filepath.Glob(found.Container.LogPath + "*") // those that were rotated have numbers
	if found.Container.LogPath == "" || err != nil {
		return usage, err
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			usage.Logs += info.Size()
		}
	}
	return usage, nil
}
