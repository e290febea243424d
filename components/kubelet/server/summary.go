package server

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/volumes"
)

// System is what the machine tells of itself beside CPU and memory. What it doesn't tell is nil.
type System struct {
	Started                  time.Time
	MemoryBytes              int64
	MaxPID, Processes        *int64
	SwapBytes, SwapAvailable *uint64
	Networks                 []runtime.NetworkUsage
	// Containers are the system containers by name, as the stats API calls them.
	Containers map[string]runtime.Usage
}

// summary answers /stats/summary (k8s.io/kubelet/pkg/apis/stats/v1alpha1); with only_cpu_and_memory, only those.
func (s *Server) summary(w http.ResponseWriter, r *http.Request) {
	brief := false
	if text := r.URL.Query().Get("only_cpu_and_memory"); text != "" {
		var err error
		if brief, err = strconv.ParseBool(text); err != nil {
			http.Error(w, "only_cpu_and_memory: "+err.Error(), http.StatusBadRequest)
			return
		}
	}
	all, _ := s.measureWhole(r.Context(), !brief)
	answer := stats.Summary{Node: s.nodeStats(r, brief), Pods: []stats.PodStats{}}
	var pods total
	pods.At = s.Clock.Now()
	for len(all) > 0 {
		end := slices.IndexFunc(all, func(m measured) bool { return m.pod != all[0].pod })
		if end < 0 {
			end = len(all)
		}
		pod := s.podStats(all[:end], brief)
		if !brief {
			pod.VolumeStats = s.volumeStats(r.Context(), all[0].pod)
			pod.EphemeralStorage = s.ephemeral(all[0].pod, all[:end], pod.VolumeStats)
		}
		answer.Pods = append(answer.Pods, pod)
		for i := range all[:end] {
			pods.add(&all[i].Usage)
		}
		all = all[end:]
	}
	answer.Node.SystemContainers = append(answer.Node.SystemContainers, stats.ContainerStats{
		Name: stats.SystemContainerPods, StartTime: answer.Node.StartTime, CPU: s.cpuStats("system/pods", &pods.Usage),
		Memory: memoryStats(&pods.Usage, 0)})
	writeJSON(w, answer)
}

func (s *Server) nodeStats(r *http.Request, brief bool) stats.NodeStats {
	node := stats.NodeStats{NodeName: s.NodeName}
	now := s.Clock.Now()
	var system System
	if s.System != nil {
		system = s.System(now)
	}
	node.StartTime.Time = system.Started
	if machine, err := s.machineUsage(r.Context()); err == nil && machine != nil {
		node.CPU, node.Memory = s.cpuStats("node", machine), memoryStats(machine, system.MemoryBytes)
	}
	for _, name := range []string{stats.SystemContainerKubelet, stats.SystemContainerRuntime} {
		if u, ok := system.Containers[name]; ok {
			node.SystemContainers = append(node.SystemContainers, stats.ContainerStats{Name: name,
				StartTime: node.StartTime, CPU: s.cpuStats("system/"+name, &u), Memory: memoryStats(&u, 0)})
		}
	}
	if brief {
		return node
	}
	node.Network = networkStats(system.Networks, now)
	if system.SwapBytes != nil {
		node.Swap = &stats.SwapStats{Time: metav1.NewTime(now), SwapUsageBytes: system.SwapBytes,
			SwapAvailableBytes: system.SwapAvailable}
	}
	if system.MaxPID != nil {
		node.Rlimit = &stats.RlimitStats{Time: metav1.NewTime(now), MaxPID: system.MaxPID,
			NumOfRunningProcesses: system.Processes}
	}
	if s.Disk != nil {
		if disk, err := s.Disk(); err == nil {
			node.Fs = fsStats(&disk, now)
			node.Runtime = &stats.RuntimeStats{ImageFs: fsStats(&disk, now), ContainerFs: fsStats(&disk, now)}
		}
	}
	return node
}

// podStats adds up a pod. The sandbox counts, but is not told of by itself: its network is the pod's.
func (s *Server) podStats(all []measured, brief bool) stats.PodStats {
	pod := all[0].pod
	out := stats.PodStats{Containers: []stats.ContainerStats{},
		PodRef: stats.PodReference{Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID)}}
	if pod.Status.StartTime != nil {
		out.StartTime = *pod.Status.StartTime
	}
	var sum total
	for i := range all {
		m := &all[i]
		sum.add(&m.Usage)
		if m.sandbox {
			sum.Networks = m.Networks
			continue
		}
		out.Containers = append(out.Containers, s.containerStats(m, brief))
	}
	out.CPU, out.Memory = s.cpuStats("pod/"+string(pod.UID), &sum.Usage), memoryStats(&sum.Usage, 0)
	if !brief {
		out.Network = networkStats(sum.Networks, sum.At)
		out.ProcessStats = &stats.ProcessStats{ProcessCount: &sum.Processes}
		out.Swap = swapStats(&sum.Usage)
	}
	return out
}

// total is the sum of usages.
type total struct{ runtime.Usage }

func (t *total) add(u *runtime.Usage) {
	t.CPU += u.CPU
	t.MemoryBytes += u.MemoryBytes
	t.WorkingSetBytes += u.WorkingSetBytes
	t.RSSBytes += u.RSSBytes
	t.PageFaults += u.PageFaults
	t.MajorPageFaults += u.MajorPageFaults
	t.SwapBytes += u.SwapBytes
	t.Processes += u.Processes
	if t.At.Before(u.At) {
		t.At = u.At
	}
}

func (s *Server) containerStats(m *measured, brief bool) stats.ContainerStats {
	out := stats.ContainerStats{Name: m.container, StartTime: m.started, CPU: s.cpuStats(m.id, &m.Usage),
		Memory: memoryStats(&m.Usage, m.resources.MemoryBytes)}
	if brief {
		return out
	}
	out.Swap = swapStats(&m.Usage)
	if limit := m.swapLimit; limit != nil {
		out.Swap.SwapAvailableBytes = new(*limit - min(m.SwapBytes, *limit))
	}
	if m.disk != nil {
		at := metav1.NewTime(m.At)
		out.Rootfs = &stats.FsStats{Time: at, UsedBytes: count(m.disk.Written)}
		out.Logs = &stats.FsStats{Time: at, UsedBytes: count(m.disk.Logs)}
	}
	return out
}

// ephemeral is the pod's space on the node's disk: that of its containers, their logs and its emptyDirs.
func (s *Server) ephemeral(pod *v1.Pod, all []measured, of []stats.VolumeStats) *stats.FsStats {
	if s.Disk == nil {
		return nil
	}
	disk, err := s.Disk()
	if err != nil {
		return nil
	}
	out := fsStats(&disk, s.Clock.Now())
	var used uint64
	for i := range all {
		if d := all[i].disk; d != nil {
			used += uint64(max(d.Written+d.Logs, 0))
		}
	}
	for i := range of {
		if local(pod, of[i].Name) && of[i].UsedBytes != nil {
			used += *of[i].UsedBytes
		}
	}
	out.UsedBytes, out.InodesUsed = &used, nil
	return out
}

// local tells a volume that takes space of the node's disk.
func local(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		if v.Name != name {
			return false
		}
		return v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumDefault || v.ConfigMap != nil || v.Secret != nil ||
			v.DownwardAPI != nil || v.Projected != nil
	})
}

func (s *Server) cpuStats(key string, u *runtime.Usage) *stats.CPUStats {
	nanoseconds := uint64(u.CPU)
	return &stats.CPUStats{Time: metav1.NewTime(u.At), UsageCoreNanoSeconds: &nanoseconds,
		UsageNanoCores: s.rates.of(key, u.CPU, u.At)}
}

// memoryStats tells what is available only where there is a limit.
func memoryStats(u *runtime.Usage, limit int64) *stats.MemoryStats {
	used, working, rss, faults, major := u.MemoryBytes, u.WorkingSetBytes, u.RSSBytes, u.PageFaults, u.MajorPageFaults
	out := &stats.MemoryStats{Time: metav1.NewTime(u.At), UsageBytes: &used, WorkingSetBytes: &working, RSSBytes: &rss,
		PageFaults: &faults, MajorPageFaults: &major}
	if limit > 0 {
		out.AvailableBytes = count(limit - int64(working))
	}
	return out
}

func swapStats(u *runtime.Usage) *stats.SwapStats {
	used := u.SwapBytes
	return &stats.SwapStats{Time: metav1.NewTime(u.At), SwapUsageBytes: &used}
}

// networkStats puts eth0, or else the first, before the rest; nil without any.
func networkStats(list []runtime.NetworkUsage, at time.Time) *stats.NetworkStats {
	if len(list) == 0 {
		return nil
	}
	out := &stats.NetworkStats{Time: metav1.NewTime(at)}
	for i := range list {
		n := &list[i]
		one := stats.InterfaceStats{Name: n.Name, RxBytes: &n.RxBytes, RxErrors: &n.RxErrors, TxBytes: &n.TxBytes,
			TxErrors: &n.TxErrors}
		out.Interfaces = append(out.Interfaces, one)
		if i == 0 || n.Name == "eth0" {
			out.InterfaceStats = one
		}
	}
	return out
}

func fsStats(u *volumes.Usage, at time.Time) *stats.FsStats {
	return &stats.FsStats{Time: metav1.NewTime(at), CapacityBytes: count(u.Capacity), AvailableBytes: count(u.Available),
		UsedBytes: count(u.Used), Inodes: count(u.Inodes), InodesFree: count(u.InodesFree), InodesUsed: count(u.InodesUsed)}
}
