package conformance

import (
	"bufio"
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"

	"quintet.dev/quintet/conformance/report"
)

// thisMachine describes the machine that the suite runs on, as far as Linux tells.
func thisMachine() report.Machine {
	m := report.Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU()}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(release))
	}
	if cpus, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = field(cpus, "model name")
	}
	if memory, err := os.ReadFile("/proc/meminfo"); err == nil {
		kib, _, _ := strings.Cut(field(memory, "MemTotal"), " ")
		if n, err := strconv.ParseInt(kib, 10, 64); err == nil {
			m.MemoryBytes = n << 10
		}
	}
	return m
}

// field is the first value of a name in a file of "name : value" lines.
func field(content []byte, name string) string {
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
