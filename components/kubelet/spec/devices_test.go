package spec

import (
	"reflect"
	"testing"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"quintet.dev/quintet/components/kubelet/devices"
	"quintet.dev/quintet/components/kubelet/runtime"
)

func TestDevicesOfContainer(t *testing.T) {
	env := &environment{values: map[string]string{}}
	env.set("OWN", "1")
	o := &devices.Options{
		Env:         map[string]string{"OWN": "2", "Z": "z", "A": "a"},
		Mounts:      []*pluginapi.Mount{{HostPath: "/h", ContainerPath: "/c", ReadOnly: true}},
		Devices:     []*pluginapi.DeviceSpec{{HostPath: "/dev/null", ContainerPath: "/dev/widget", Permissions: "r"}},
		Annotations: map[string]string{"k": "v"}, CDI: []string{"vendor.com/class=1"},
	}
	if got := withDevices(env, o); !reflect.DeepEqual(got, []string{"OWN=1", "A=a", "Z=z"}) {
		t.Errorf("variables %v", got)
	}
	if got := withDevices(env, nil); !reflect.DeepEqual(got, []string{"OWN=1"}) {
		t.Errorf("variables without devices %v", got)
	}
	got := &runtime.ContainerSpec{}
	addDevices(got, o)
	want := &runtime.ContainerSpec{
		Mounts:            []runtime.Mount{{Source: "/h", Target: "/c", ReadOnly: true}},
		Devices:           []runtime.Device{{Source: "/dev/null", Target: "/dev/widget", Permissions: "r"}},
		DeviceAnnotations: map[string]string{"k": "v"}, CDI: []string{"vendor.com/class=1"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	addDevices(got, nil)
}
