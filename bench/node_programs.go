package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"

	"quintet.dev/quintet/cluster"
)

// idlePrograms are those that a node runs, by the first 15 characters of their names, as the kernel has them.
var idlePrograms = []struct{ name, memoryAim, cpuAim string }{
	{"kubelet", "≤ 40 MiB", "< 2 %"},
	{"kube-proxy", "≤ 25 MiB", ""},
	{"network-policy", "", ""},
	{"node-routes", "", ""},
	{"volume-provisio", "", ""},
	{"node-init", "", ""},
	{"coredns", "≤ 35 MiB", ""},
	{"dockerd", "", ""},
	{"containerd", "", ""},
	{"containerd-shim", "", ""},
}

// program is what all processes of a name take together.
type program struct {
	cpu      time.Duration
	resident float64 // MiB; what processes share counts for each of them
}

// programsOn asks a node what its processes take. Those of a name are taken together.
func programsOn(ctx context.Context, node *cluster.Member) (map[string]program, error) {
	result, err := node.Exec(ctx, []string{"sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null || true"}, nil)
	if err != nil {
		return nil, err
	}
	return parsePrograms(string(result.Stdout))
}

// parsePrograms reads lines of proc_pid_stat(5).
func parsePrograms(stat string) (map[string]program, error) {
	all := map[string]program{}
	for line := range strings.Lines(stat) {
		_, rest, _ := strings.Cut(line, "(")
		end := strings.LastIndex(rest, ") ")
		if end < 0 {
			return nil, fmt.Errorf("no stat of a process: %q", line)
		}
		worked, err := worked(rest[end+2:])
		if err != nil {
			return nil, err
		}
		const rss = 21
		pages, err := strconv.ParseFloat(strings.Fields(rest[end+2:])[rss], 64)
		if err != nil {
			return nil, err
		}
		p := all[rest[:end]]
		p.cpu += worked
		p.resident += pages * float64(os.Getpagesize()) / (1 << 20)
		all[rest[:end]] = p
	}
	return all, nil
}

// idleMeasures tells what the programs of a node took between two looks at them.
func idleMeasures(before, after map[string]program, took time.Duration) []Measure {
	var out []Measure
	for _, of := range idlePrograms {
		p, runs := after[of.name]
		if !runs {
			continue
		}
		out = append(out,
			Measure{Name: "idle, resident, " + of.name, Value: p.resident, Unit: "MiB", Aim: of.memoryAim},
			Measure{Name: "idle, processor, " + of.name, Value: 100 * float64(p.cpu-before[of.name].cpu) / float64(took),
				Unit: "%", Aim: of.cpuAim})
	}
	return out
}

// totalCPU reads an answer of Docker about the use of a container.
func totalCPU(body io.Reader) (time.Duration, error) {
	var stats container.StatsResponse
	if err := json.NewDecoder(body).Decode(&stats); err != nil {
		return 0, fmt.Errorf("use of the node: %w", err)
	}
	return time.Duration(stats.CPUStats.CPUUsage.TotalUsage), nil
}
