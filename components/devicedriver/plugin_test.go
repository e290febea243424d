package devicedriver

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func TestParseUnhealthy(t *testing.T) {
	for value, want := range map[string]map[string]string{
		"":                  {},
		" , ":               {},
		"a":                 {"a": "marked as unhealthy"},
		"a=too hot, b":      {"a": "too hot", "b": "marked as unhealthy"},
		"a=x=y,a=the later": {"a": "the later"},
	} {
		if got := parseUnhealthy(value); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

func TestPrefer(t *testing.T) {
	all, _ := newInventory().list("d", 6, 2) // d-0 to d-2 on NUMA node 0, d-3 to d-5 on 1
	for name, c := range map[string]struct {
		available, must string
		size            int
		want            string
	}{
		"the first":                {"d-0,d-1,d-3,d-4", "", 1, "d-0"},
		"one node":                 {"d-0,d-3,d-4", "", 2, "d-3,d-4"},
		"the smallest that fits":   {"d-0,d-1,d-2,d-3", "", 1, "d-3"},
		"near those that must be":  {"d-0,d-1,d-3,d-4", "d-4", 2, "d-4,d-3"},
		"both nodes":               {"d-0,d-1,d-3", "", 3, "d-0,d-1,d-3"},
		"fewer than are asked for": {"d-5", "", 2, "d-5"},
	} {
		available := strings.Split(c.available, ",")
		var must []string
		if c.must != "" {
			must = strings.Split(c.must, ",")
		}
		if got := strings.Join(prefer(all, available, must, c.size), ","); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Whatever is available, as many as are asked for are chosen, once each, with those that must be.
func TestPreferChoosesEnough(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		n, numa := 1+random.IntN(9), random.IntN(4)
		all, _ := newInventory().list("d", n, numa)
		var available []string
		for _, i := range random.Perm(n)[:1+random.IntN(n)] {
			available = append(available, all[i].name)
		}
		must := available[:random.IntN(len(available)+1)]
		size := len(must) + random.IntN(len(available)-len(must)+1)
		chosen := prefer(all, available, must, size)
		distinct := slices.Compact(slices.Sorted(slices.Values(chosen)))
		if len(chosen) != size || len(distinct) != size {
			t.Fatalf("of %v with %v: %v, want %d", available, must, chosen, size)
		}
		for _, one := range must {
			if !slices.Contains(chosen, one) {
				t.Fatalf("of %v: %v lacks %s", available, chosen, one)
			}
		}
		for _, one := range chosen {
			if !slices.Contains(available, one) {
				t.Fatalf("%s of %v is not among %v", one, chosen, available)
			}
		}
	}
}

func TestAllocate(t *testing.T) {
	config := NewConfig()
	config.Root, config.CDIDir = t.TempDir(), t.TempDir()
	inventory := newInventory()
	p := &plugin{config: config, inventory: inventory}
	if err := p.prepare(); err != nil {
		t.Fatal(err)
	}
	request := func(ids ...string) *pluginapi.AllocateRequest {
		return &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}}}
	}
	response, err := p.Allocate(t.Context(), request("device-1", "device-0"))
	if err != nil {
		t.Fatal(err)
	}
	got := response.ContainerResponses[0]
	if got.Envs["QUINTET_DEVICES"] != "device-1,device-0" || len(got.Mounts) != 2 || len(got.Devices) != 2 ||
		got.CdiDevices[0].Name != "quintet.dev/device=device-1" || got.Devices[0].ContainerPath != "/dev/quintet/device-1" {
		t.Errorf("answer %v", got)
	}
	if _, err := p.Allocate(t.Context(), request("device-9")); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown device: %v", err)
	}
	inventory.set(map[string]string{"device-0": "too hot"})
	if _, err := p.Allocate(t.Context(), request("device-0")); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("an unhealthy device: %v", err)
	}
}
