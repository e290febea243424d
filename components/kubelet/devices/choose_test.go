package devices

import (
	"reflect"
	"strings"
	"testing"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func set(ids string) idSet {
	s := idSet{}
	for _, id := range strings.Fields(ids) {
		s[id] = true
	}
	return s
}

func TestChoose(t *testing.T) {
	for name, c := range map[string]struct {
		wish       wish
		must, free string
		nothing    bool
		err        string
	}{
		"free ones": {wish: wish{required: 2, registered: true, healthy: set("a b c"), used: set("b")}, free: "a c"},
		"reused ones first": {wish: wish{required: 1, registered: true, healthy: set("a b"), used: set("a"),
			reusable: set("a")}, must: "a", free: "b"},
		"had": {wish: wish{required: 1, registered: true, healthy: set("a"), used: set("a"),
			had: &allocation{IDs: []string{"a"}}}, nothing: true},
		"had another number": {wish: wish{required: 2, registered: true, healthy: set("a"),
			had: &allocation{IDs: []string{"a"}}}, err: `pod "" container "" changed request for resource "r" from 1 to 2`},
		"had, sick": {wish: wish{required: 1, registered: true, healthy: set("b"), had: &allocation{IDs: []string{"a"}}},
			err: "previously allocated devices are no longer healthy; cannot allocate unhealthy devices r"},
		"none healthy": {wish: wish{required: 1, registered: true},
			err: "no healthy devices present; cannot allocate unhealthy devices r"},
		"no plug-in": {wish: wish{required: 1}, err: "cannot allocate unregistered device r"},
		"too few": {wish: wish{required: 3, registered: true, healthy: set("a b"), used: set("a"), reusable: set("a")},
			err: "requested number of devices unavailable for r. Requested: 2, Available: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			c.wish.resource = "r"
			got, err := choose(&c.wish)
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Fatalf("got error %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.nothing {
				if got != nil {
					t.Fatalf("got %v", got)
				}
				return
			}
			if strings.Join(got.must, " ") != c.must || strings.Join(got.available, " ") != c.free {
				t.Errorf("must %v, available %v", got.must, got.available)
			}
		})
	}
}

func TestPick(t *testing.T) {
	for name, c := range map[string]struct {
		choice    choice
		preferred []string
		want      string
	}{
		"first ones":          {choice{required: 2, available: []string{"a", "b", "c"}}, nil, "a b"},
		"preferred":           {choice{required: 2, available: []string{"a", "b", "c"}}, []string{"c", "a"}, "a c"},
		"preferred too few":   {choice{required: 2, available: []string{"a", "b", "c"}}, []string{"c"}, "a c"},
		"preferred not there": {choice{required: 1, available: []string{"a"}}, []string{"x"}, "a"},
		"with must": {choice{required: 2, must: []string{"z"}, available: []string{"a", "b"}}, []string{"b"},
			"b z"},
		"must of preferred": {choice{required: 2, must: []string{"a"}, available: []string{"b"}}, []string{"a", "b"},
			"a b"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(c.choice.pick(c.preferred), " "); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	got := merge(map[string]*allocation{
		"b/r": {Response: &pluginapi.ContainerAllocateResponse{
			Envs: map[string]string{"A": "late", "B": "2"}, Annotations: map[string]string{"k": "late"},
			Mounts:     []*pluginapi.Mount{{ContainerPath: "/m", HostPath: "/late"}},
			Devices:    []*pluginapi.DeviceSpec{{ContainerPath: "/dev/x", HostPath: "/late"}},
			CdiDevices: []*pluginapi.CDIDevice{{Name: "v/c=1"}, {Name: "v/c=2"}},
		}},
		"a/r": {Response: &pluginapi.ContainerAllocateResponse{
			Envs: map[string]string{"A": "1"}, Annotations: map[string]string{"k": "v"},
			Mounts:     []*pluginapi.Mount{{ContainerPath: "/m", HostPath: "/h"}},
			Devices:    []*pluginapi.DeviceSpec{{ContainerPath: "/dev/x", HostPath: "/dev/null"}},
			CdiDevices: []*pluginapi.CDIDevice{{Name: "v/c=1"}},
		}},
	})
	if !reflect.DeepEqual(got.Env, map[string]string{"A": "1", "B": "2"}) || got.Annotations["k"] != "v" {
		t.Errorf("env %v, annotations %v", got.Env, got.Annotations)
	}
	if len(got.Mounts) != 1 || got.Mounts[0].HostPath != "/h" || len(got.Devices) != 1 ||
		got.Devices[0].HostPath != "/dev/null" || !reflect.DeepEqual(got.CDI, []string{"v/c=1", "v/c=2"}) {
		t.Errorf("mounts %v, devices %v, CDI %v", got.Mounts, got.Devices, got.CDI)
	}
}
