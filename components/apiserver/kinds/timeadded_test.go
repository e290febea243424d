package kinds_test

import (
	"encoding/json"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// TestTaintsWithoutTime: a taint that lies in the store without the time at which it came has come when it is read.
func TestTaintsWithoutTime(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	kind := map[string]*api.Kind{}
	for _, k := range kinds.Table(api.Deps{Clock: testingclock.NewFakePassiveClock(at)}) {
		kind[k.Name] = k
	}
	const taint = `{"key":"a","effect":"NoSchedule"}`
	for _, c := range []struct{ name, version, spec string }{
		{"ResourceSlice", "v1", `{"devices":[{"taints":[` + taint + `]}]}`},
		{"ResourceSlice", "v1beta2", `{"devices":[{"taints":[` + taint + `]}]}`},
		{"ResourceSlice", "v1beta1", `{"devices":[{"basic":{"taints":[` + taint + `]}}]}`},
		{"DeviceTaintRule", "v1alpha3", `{"taint":` + taint + `}`},
		{"DeviceTaintRule", "v1beta2", `{"taint":` + taint + `}`},
	} {
		obj, err := codec.NewStorage(kind[c.name], runtime.ContentTypeProtobuf).Decode([]byte(
			`{"apiVersion":"resource.k8s.io/` + c.version + `","kind":"` + c.name +
				`","metadata":{"name":"x"},"spec":` + c.spec + `}`))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Spec struct {
				Devices []struct{ Taints []map[string]string }
				Taint   map[string]string
			}
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		is := got.Spec.Taint
		if len(got.Spec.Devices) > 0 {
			is = got.Spec.Devices[0].Taints[0]
		}
		if is["timeAdded"] != "2026-01-02T03:04:05Z" {
			t.Errorf("%s in %s: %v", c.name, c.version, is)
		}
	}
}
