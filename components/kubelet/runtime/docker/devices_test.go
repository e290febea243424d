package docker

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// A container sees what a driver gives it for a device: a variable, a file and a device node.
func TestDeviceOfDriver(t *testing.T) {
	e := engine(t)
	file := filepath.Join(t.TempDir(), "widget")
	if err := os.WriteFile(file, []byte("firmware"), 0o600); err != nil {
		t.Fatal(err)
	}
	uid, id := run(t, e, func(s *runtime.ContainerSpec) {
		s.Env = []string{"WIDGET=d0"}
		s.Mounts = []runtime.Mount{{Source: file, Target: "/widget", ReadOnly: true}}
		s.Devices = []runtime.Device{{Source: "/dev/null", Target: "/dev/widget", Permissions: "rw"}}
	}, "device", "/dev/widget", "/widget")
	await(t, e, uid)
	var stdout bytes.Buffer
	if err := e.Logs(t.Context(), id, runtime.LogOptions{Follow: true}, &stdout, nil); err != nil {
		t.Fatal(err)
	}
	if stdout.String() != "d0 firmware <nil>\n" {
		t.Errorf("got %q", stdout.String())
	}
}

func TestDevicesAreAskedOfTheEngine(t *testing.T) {
	host := (&Engine{}).hostConfig(&runtime.ContainerSpec{
		CDI: []string{"example.com/gpu=0"}, DeviceAnnotations: map[string]string{"k": "v"},
		Devices: []runtime.Device{{Source: "/dev/a", Target: "/dev/b", Permissions: "r"}, {Source: "/dev/c"}},
	})
	if len(host.DeviceRequests) != 1 || host.DeviceRequests[0].Driver != "cdi" ||
		!reflect.DeepEqual(host.DeviceRequests[0].DeviceIDs, []string{"example.com/gpu=0"}) {
		t.Errorf("requests %+v", host.DeviceRequests)
	}
	if host.Annotations["k"] != "v" {
		t.Errorf("annotations %v", host.Annotations)
	}
	if host.Devices[0].CgroupPermissions != "r" || host.Devices[1].CgroupPermissions != "mrw" {
		t.Errorf("devices %+v", host.Devices)
	}
}
