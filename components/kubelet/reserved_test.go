package kubelet

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes/fake"

	"quintet.dev/quintet/components/kubelet/cgroups"
)

// TestResourceConfig: errors are upstream's.
func TestResourceConfig(t *testing.T) {
	for name, test := range map[string]struct{ file, fails string }{
		"all of it": {file: "enforceNodeAllocatable: [pods, kube-reserved, system-reserved-compressible]\n" +
			"systemReservedCgroup: /system\nkubeReservedCgroup: /kube\nfailSwapOn: false\n" +
			"memorySwap: {swapBehavior: LimitedSwap}\nshutdownGracePeriod: 20s\n" +
			"shutdownGracePeriodCriticalPods: 5s\nsingleProcessOOMKill: true\n" +
			"reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n"},
		"nothing enforced": {file: "enforceNodeAllocatable: [none]\ncgroupsPerQOS: false\n"},
		"none and others":  {"enforceNodeAllocatable: [none, pods]\n", "may not contain additional enforcements"},
		"duplicated":       {"enforceNodeAllocatable: [pods, pods]\n", `duplicated enforcements "pods"`},
		"unknown":          {"enforceNodeAllocatable: [all]\n", `option "all" specified for enforceNodeAllocatable`},
		"system, no cgroup": {"enforceNodeAllocatable: [system-reserved]\n",
			"systemReservedCgroup (--system-reserved-cgroup) must"},
		"kube, no cgroup": {"enforceNodeAllocatable: [kube-reserved]\n",
			"kubeReservedCgroup (--kube-reserved-cgroup) must"},
		"both kinds": {"enforceNodeAllocatable: [kube-reserved, kube-reserved-compressible]\nkubeReservedCgroup: /k\n",
			"cannot be specified together"},
		"no control groups": {"cgroupsPerQOS: false\n", "cgroupsPerQOS (--cgroups-per-qos) must be set to true"},
		"CPUs and cgroups":  {"reservedSystemCPUs: 0-1\nkubeReservedCgroup: /k\n", "can't use reservedSystemCPUs"},
		"bad CPUs":          {"reservedSystemCPUs: x\n", "unable to parse reservedSystemCPUs"},
		"bad resource":      {"kubeReserved: {gpu: \"1\"}\n", `cannot reserve "gpu" resource`},
		"negative":          {"systemReserved: {cpu: \"-1\"}\n", `resource quantity for "cpu" cannot be negative`},
		"bad quantity":      {"systemReserved: {cpu: much}\n", `failed to parse quantity "much"`},
		"memory of nothing": {"reservedMemory: [{numaNode: 0, limits: {memory: 0}}]\n", "may not be zero for NUMA node 0"},
		"memory twice": {"reservedMemory: [{numaNode: 1, limits: {memory: 1}}, {numaNode: 1, limits: {memory: 2}}]\n",
			"duplicate value for NUMA node 1"},
		"no memory": {"reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]\n", `the limit type "cpu"`},
		"swap":      {"memorySwap: {swapBehavior: Much}\n", `memorySwap.swapBehavior "Much"`},
		"critical above total": {"shutdownGracePeriod: 2s\nshutdownGracePeriodCriticalPods: 3s\n",
			"must be <= shutdownGracePeriod 2s"},
		"short shutdown": {"shutdownGracePeriod: 20ms\n", "must be either zero or otherwise >= 1 sec"},
		"two ways": {"shutdownGracePeriod: 2s\nshutdownGracePeriodByPodPriority: [{priority: 1, " +
			"shutdownGracePeriodSeconds: 1}]\n",
			"Cannot specify both"},
	} {
		t.Run(name, func(t *testing.T) {
			config := NewConfig()
			config.Client = fake.NewClientset()
			config.ConfigFile = filepath.Join(t.TempDir(), "config.yaml")
			header := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
			if err := os.WriteFile(config.ConfigFile, []byte(header+test.file), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := New(*config)
			if (err != nil) != (test.fails != "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("got %v, want %q", err, test.fails)
			}
		})
	}
}

func TestReserved(t *testing.T) {
	config := NewConfig()
	config.SystemReserved = map[string]string{"cpu": "100m", "memory": "1Gi"}
	config.KubeReserved = map[string]string{"cpu": "200m", "pid": "10"}
	for cpus, want := range map[string]string{"": "300m", "0,2-3": "3"} {
		config.ReservedSystemCPUs = cpus
		reserved, err := config.reserved()
		if err != nil {
			t.Fatal(err)
		}
		total := reserved.total()
		if cpu := total[v1.ResourceCPU]; cpu.String() != want {
			t.Errorf("CPUs %q: %s, want %s", cpus, &cpu, want)
		}
		if total.Memory().String() != "1Gi" {
			t.Errorf("memory %s", total.Memory())
		}
	}
}

func TestEnforcer(t *testing.T) {
	capacity := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("4Ki"),
		pids: resource.MustParse("100")}
	reserved := reservations{
		system: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse("1Ki")},
		kube:   v1.ResourceList{pids: resource.MustParse("30"), v1.ResourceCPU: resource.MustParse("1")},
	}
	const kept = "max\n"
	for name, test := range map[string]struct {
		enforce []string
		want    map[string]string
		events  []string
		fails   bool
	}{
		"pods": {[]string{"pods"}, map[string]string{"kubepods/memory.max": "3072", "kubepods/pids.max": "70",
			"kubepods/cpu.weight": "79", "system/memory.max": kept}, []string{"NodeAllocatableEnforced"}, false},
		"none": {[]string{"none"}, map[string]string{"kubepods/memory.max": "max", "kubepods/pids.max": "max",
			"kubepods/cpu.weight": "79"}, nil, false},
		"reserved": {[]string{"system-reserved"}, map[string]string{"system/memory.max": "1024",
			"system/cpu.weight": "39"}, []string{"NodeAllocatableEnforced"}, false},
		"compressible": {[]string{"system-reserved-compressible"}, map[string]string{"system/memory.max": kept,
			"system/cpu.weight": "39"}, []string{"NodeAllocatableEnforced"}, false},
		"no group": {[]string{"kube-reserved"}, nil, []string{"FailedNodeAllocatableEnforcement"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			tree := cgroups.Tree{Mount: t.TempDir(), Root: "/"}
			for file, content := range map[string]string{"cgroup.controllers": "", "system/memory.max": kept} {
				path := filepath.Join(tree.Mount, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			config := NewConfig()
			config.EnforceNodeAllocatable, config.SystemReservedCgroup, config.KubeReservedCgroup = test.enforce, "/system",
				"/kube"
			var events []string
			e := &enforcer{config: config, tree: tree, capacity: capacity, reservations: reserved,
				event: func(_, reason, _ string) { events = append(events, reason) }}
			if err := e.enforceReserved(); (err != nil) != test.fails {
				t.Fatal(err)
			}
			if err := e.enforcePods(); err != nil {
				t.Fatal(err)
			}
			for file, want := range test.want {
				if got, err := os.ReadFile(filepath.Join(tree.Mount, file)); string(got) != want {
					t.Errorf("%s: %q, %v, want %q", file, got, err, want)
				}
			}
			if !slices.Equal(events, test.events) {
				t.Errorf("events %v, want %v", events, test.events)
			}
		})
	}
}
