package node

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"quintet.dev/quintet/components/kubelet/cgroups"
	kruntime "quintet.dev/quintet/components/kubelet/runtime"
)

func amounts(pairs ...string) v1.ResourceList {
	list := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func TestResources(t *testing.T) {
	info := kruntime.Info{CPUs: 4, MemoryBytes: 8 << 30}
	for name, test := range map[string]struct {
		config                Config
		before                v1.NodeStatus
		capacity, allocatable v1.ResourceList
	}{
		"the whole machine": {capacity: amounts("cpu", "4", "memory", "8Gi"), allocatable: amounts("cpu", "4", "memory",
			"8Gi")},
		"bounded": {config: Config{Bounds: cgroups.Bounds{MilliCPUs: 1500, MemoryBytes: 2 << 30}},
			capacity: amounts("cpu", "1500m", "memory", "2Gi"), allocatable: amounts("cpu", "1500m", "memory", "2Gi")},
		"bounded by more than there is": {config: Config{Bounds: cgroups.Bounds{MilliCPUs: 8000, MemoryBytes: 9 << 30}},
			capacity: amounts("cpu", "4", "memory", "8Gi"), allocatable: amounts("cpu", "4", "memory", "8Gi")},
		"reserved and withheld": {config: Config{Reserved: amounts("cpu", "500m", "memory", "1Gi", "pid", "10"),
			Withheld: func(v1.ResourceList) v1.ResourceList { return amounts("memory", "1Gi") }},
			capacity: amounts("cpu", "4", "memory", "8Gi"), allocatable: amounts("cpu", "3500m", "memory", "6Gi")},
		"huge pages": {config: Config{HugePages: amounts("hugepages-2Mi", "2Gi")},
			capacity:    amounts("cpu", "4", "memory", "8Gi", "hugepages-2Mi", "2Gi"),
			allocatable: amounts("cpu", "4", "memory", "6Gi", "hugepages-2Mi", "2Gi")},
		"huge pages that are gone": {before: v1.NodeStatus{Capacity: amounts("hugepages-1Gi", "1Gi", "x/y", "3")},
			capacity:    amounts("cpu", "4", "memory", "8Gi", "hugepages-1Gi", "0", "x/y", "3"),
			allocatable: amounts("cpu", "4", "memory", "8Gi", "hugepages-1Gi", "0", "x/y", "3")},
	} {
		t.Run(name, func(t *testing.T) {
			New(test.config).resources(info, &test.before)
			check := func(kind string, got, want v1.ResourceList) {
				if _, has := got["pid"]; has || len(got) != len(want)+1 { // and pods
					t.Errorf("%s %v, want %v", kind, got, want)
				}
				for name, quantity := range want {
					if have := got[name]; have.Cmp(quantity) != 0 {
						t.Errorf("%s of %s: %s, want %s", kind, name, &have, &quantity)
					}
				}
			}
			check("capacity", test.before.Capacity, test.capacity)
			check("allocatable", test.before.Allocatable, test.allocatable)
		})
	}
}

func TestCheckReserved(t *testing.T) {
	info := kruntime.Info{CPUs: 2, MemoryBytes: 1 << 30}
	if err := New(Config{Reserved: amounts("cpu", "2", "memory", "1Gi")}).CheckReserved(info); err != nil {
		t.Errorf("all of it: %v", err)
	}
	err := New(Config{Reserved: amounts("memory", "2Gi")}).CheckReserved(info)
	if err == nil || !strings.Contains(err.Error(), `"memory" has a reservation of 2Gi but capacity of 1Gi`) {
		t.Errorf("too much: %v", err)
	}
}

// TestChangesAreTold: each once, however often the status is computed.
func TestChangesAreTold(t *testing.T) {
	recorder := record.NewFakeRecorder(20)
	client := fake.NewClientset(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Status: v1.NodeStatus{NodeInfo: v1.NodeSystemInfo{BootID: "another"}}})
	start(t, client, func(c *Config) { c.Recorder = recorder })
	expect := func(want string) {
		t.Helper()
		for {
			select {
			case got := <-recorder.Events:
				if strings.Contains(got, want) {
					return
				}
			case <-time.After(waitTimeout):
				t.Fatalf("no event %q", want)
			}
		}
	}
	expect("Warning Rebooted Node n1 has been rebooted, boot id: ")
	for _, change := range []struct{ value, want string }{{"true", "NodeNotSchedulable"}, {"null", "NodeSchedulable"}} {
		patch := []byte(`{"spec":{"unschedulable":` + change.value + `}}`)
		if _, err := client.CoreV1().Nodes().Patch(t.Context(), "n1", types.MergePatchType, patch,
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		expect("Normal " + change.want + " Node n1 status is now: " + change.want)
	}
	for {
		select {
		case got := <-recorder.Events:
			if strings.Contains(got, "Rebooted") {
				t.Fatalf("told again: %s", got)
			}
			continue
		default:
		}
		break
	}
}
