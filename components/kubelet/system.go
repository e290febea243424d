package kubelet

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/server"
)

// system reads what the machine tells of itself in proc. The process ID of the container engine is in the file engine.
type system struct{ proc, engine string }

// read leaves out what can't be read.
func (s system) read(now time.Time) server.System {
	out := server.System{Containers: map[string]runtime.Usage{}, Networks: networks(s.file("net/dev"))}
	for _, line := range strings.Split(s.file("stat"), "\n") {
		if text, ok := strings.CutPrefix(line, "btime "); ok {
			if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
				out.Started = time.Unix(seconds, 0)
			}
		}
	}
	if n, err := strconv.ParseInt(strings.TrimSpace(s.file("sys/kernel/pid_max")), 10, 64); err == nil {
		out.MaxPID = &n
	}
	if words := strings.Fields(s.file("loadavg")); len(words) > 3 { // the fourth is "running/all"
		_, all, _ := strings.Cut(words[3], "/")
		if n, err := strconv.ParseInt(all, 10, 64); err == nil {
			out.Processes = &n
		}
	}
	memory := meminfo(s.file("meminfo"))
	out.MemoryBytes = int64(memory["MemTotal"])
	if total, ok := memory["SwapTotal"]; ok {
		free := min(memory["SwapFree"], total)
		used := total - free
		out.SwapBytes, out.SwapAvailable = &used, &free
	}
	s.process(out.Containers, stats.SystemContainerKubelet, "self", now)
	if pid, err := os.ReadFile(s.engine); err == nil {
		s.process(out.Containers, stats.SystemContainerRuntime, strings.TrimSpace(string(pid)), now)
	}
	return out
}

func (s system) file(name string) string {
	data, err := os.ReadFile(filepath.Join(s.proc, name))
	if err != nil {
		return ""
	}
	return string(data)
}

// appArmorFile is where the kernel tells whether it enforces AppArmor.
const appArmorFile = "/sys/module/apparmor/parameters/enabled"

// appArmorEnabled is false where the kernel has no AppArmor.
func appArmorEnabled(file string) bool {
	data, err := os.ReadFile(file)
	return err == nil && strings.HasPrefix(string(data), "Y")
}

// tick is the unit of CPU time in proc (USER_HZ).
const tick = time.Second / 100

// process measures one process.
func (s system) process(into map[string]runtime.Usage, name, pid string, now time.Time) {
	_, rest, ok := strings.Cut(s.file(pid+"/stat"), ") ") // the name before may hold spaces
	words := strings.Fields(rest)
	if !ok || len(words) < 22 {
		return
	}
	number := func(i int) uint64 {
		n, err := strconv.ParseUint(words[i], 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	// The first word is the third field of proc(5).
	u := runtime.Usage{At: now, PageFaults: number(7), MajorPageFaults: number(9), Processes: 1,
		CPUUser: time.Duration(number(11)) * tick, CPUSystem: time.Duration(number(12)) * tick}
	u.CPU = u.CPUUser + u.CPUSystem
	u.RSSBytes = number(21) * uint64(os.Getpagesize())
	u.MemoryBytes, u.WorkingSetBytes = u.RSSBytes, u.RSSBytes
	into[name] = u
}

// meminfo reads lines of a name, a colon and a number of KiB; the values are bytes.
func meminfo(text string) map[string]uint64 {
	out := map[string]uint64{}
	for _, line := range strings.Split(text, "\n") {
		name, rest, _ := strings.Cut(line, ":")
		words := strings.Fields(rest)
		if len(words) == 0 {
			continue
		}
		if n, err := strconv.ParseUint(words[0], 10, 64); err == nil {
			out[name] = n << 10
		}
	}
	return out
}

// networks reads the interfaces of /proc/net/dev but for the loopback and those of containers.
func networks(text string) []runtime.NetworkUsage {
	var all []runtime.NetworkUsage
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		name, rest, ok := strings.Cut(lines.Text(), ":")
		name = strings.TrimSpace(name)
		words := strings.Fields(rest)
		if !ok || len(words) < 16 || name == "lo" || strings.HasPrefix(name, "veth") {
			continue
		}
		var n [16]uint64
		for i := range n {
			value, err := strconv.ParseUint(words[i], 10, 64)
			if err != nil {
				return all
			}
			n[i] = value
		}
		all = append(all, runtime.NetworkUsage{Name: name, RxBytes: n[0], RxPackets: n[1], RxErrors: n[2],
			RxDropped: n[3], TxBytes: n[8], TxPackets: n[9], TxErrors: n[10], TxDropped: n[11]})
	}
	return all
}
