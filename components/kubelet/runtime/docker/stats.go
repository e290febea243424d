package docker

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"quintet.dev/quintet/components/kubelet/runtime"
)

var _ runtime.Statistics = (*Engine)(nil)

// Stats implements runtime.Statistics.
func (e *Engine) Stats(ctx context.Context, id string) (runtime.Usage, error) {
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
	}
	for _, name := range []string{"total_inactive_file", "inactive_file"} { // cgroup v1, v2
		if inactive, ok := sample.MemoryStats.Stats[name]; ok {
			usage.WorkingSetBytes -= min(inactive, usage.WorkingSetBytes)
			break
		}
	}
	return usage, nil
}

// Disk implements runtime.Disks. Logs that an engine keeps on another machine count as nothing.
func (e *Engine) Disk(ctx context.Context, id string) (runtime.DiskUsage, error) {
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
