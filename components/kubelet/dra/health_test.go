package dra

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	drahealthapi "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	testclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/kubelet/devices/devicetest"
)

const (
	healthy   = drahealthapi.HealthStatus_HEALTHY
	unhealthy = drahealthapi.HealthStatus_UNHEALTHY
)

func health(device string, is drahealthapi.HealthStatus, message string, seconds int64) *drahealthapi.DeviceHealth {
	return &drahealthapi.DeviceHealth{Device: &drahealthapi.DeviceIdentifier{PoolName: "p", DeviceName: device},
		Health: is, Message: message, HealthCheckTimeoutSeconds: seconds}
}

func id(device string) deviceID { return deviceID{driverName, "p", device} }

// Only what differs is told, also when the same is told again after it was too old.
func TestHealthUpdates(t *testing.T) {
	var cache healthCache
	begin := time.Unix(1000, 0)
	for _, step := range []struct {
		name  string
		after time.Duration
		told  *drahealthapi.DeviceHealth
		want  []deviceID
	}{
		{"first", 0, health("d0", healthy, "", 0), []deviceID{id("d0")}},
		{"the same", time.Second, health("d0", healthy, "", 0), nil},
		{"another state", 2 * time.Second, health("d0", unhealthy, "", 0), []deviceID{id("d0")}},
		{"another message", 3 * time.Second, health("d0", unhealthy, "hot", 0), []deviceID{id("d0")}},
		{"in time", 3*time.Second + healthTimeout, health("d0", unhealthy, "hot", 60), nil},
		{"within its own timeout", 60 * time.Second, health("d0", unhealthy, "hot", 1), nil},
		{"too late", 62 * time.Second, health("d0", unhealthy, "hot", 1), []deviceID{id("d0")}},
		{"without a device", 62 * time.Second, &drahealthapi.DeviceHealth{Health: healthy}, nil},
		{"without a name", 62 * time.Second, health("", healthy, "", 0), nil},
	} {
		got := cache.update(driverName, []*drahealthapi.DeviceHealth{step.told}, begin.Add(step.after))
		if !reflect.DeepEqual(got, step.want) {
			t.Errorf("%s: changed %v, want %v", step.name, got, step.want)
		}
	}
}

// Health that is too old is unknown, which is told once, and of the driver alone that was asked for.
func TestHealthExpires(t *testing.T) {
	var cache healthCache
	begin := time.Unix(1000, 0)
	cache.update(driverName, []*drahealthapi.DeviceHealth{health("d0", unhealthy, "hot", 10),
		health("d1", healthy, "", 20)}, begin)
	cache.update("other", []*drahealthapi.DeviceHealth{health("d0", healthy, "", 10)}, begin)
	want := func(at time.Duration, state v1.ResourceHealthStatus, message string) {
		t.Helper()
		if s, m := cache.get(id("d0"), begin.Add(at)); s != state || m != message {
			t.Errorf("after %v: %s %q, want %s %q", at, s, m, state, message)
		}
	}
	expired := func(at time.Duration, want ...deviceID) {
		t.Helper()
		if got := cache.expire(driverName, begin.Add(at)); !reflect.DeepEqual(got, want) {
			t.Errorf("after %v %v expired, want %v", at, got, want)
		}
	}
	want(10*time.Second, v1.ResourceHealthStatusUnhealthy, "hot")
	expired(10 * time.Second)
	want(11*time.Second, v1.ResourceHealthStatusUnknown, "")
	expired(11*time.Second, id("d0"))
	expired(12 * time.Second)
	expired(21*time.Second, id("d1"))
	cache.update(driverName, []*drahealthapi.DeviceHealth{health("d0", healthy, "", 10)}, begin.Add(30*time.Second))
	want(30*time.Second, v1.ResourceHealthStatusHealthy, "")
	expired(41*time.Second, id("d0"))
	if gone := cache.clear(driverName); len(gone) != 2 {
		t.Errorf("%v was known", gone)
	}
	want(30*time.Second, v1.ResourceHealthStatusUnknown, "")
	if s, _ := cache.get(deviceID{"other", "p", "d0"}, begin); s != v1.ResourceHealthStatusHealthy {
		t.Error("another driver's health is forgotten, too")
	}
}

// A message fits into a status, and stays text.
func TestHealthMessages(t *testing.T) {
	const most = v1.ResourceHealthMessageMaxLength
	for name, message := range map[string]string{
		"short": "hot", "just": strings.Repeat("x", most), "long": strings.Repeat("x", most+1),
		"wide": strings.Repeat("é", most),
	} {
		got := truncate(message)
		if len(got) > most || !utf8.ValidString(got) {
			t.Errorf("%s: %d bytes, %q", name, len(got), got)
		}
		if cut := len(message) > most; cut != strings.HasSuffix(got, "...") || !cut && got != message {
			t.Errorf("%s: %q", name, got)
		}
	}
	for told, want := range map[drahealthapi.HealthStatus]v1.ResourceHealthStatus{
		healthy: v1.ResourceHealthStatusHealthy, unhealthy: v1.ResourceHealthStatusUnhealthy,
		drahealthapi.HealthStatus_UNKNOWN: v1.ResourceHealthStatusUnknown, 99: v1.ResourceHealthStatusUnknown,
	} {
		if got := statusOf(told); got != want {
			t.Errorf("%v is %s, want %s", told, got, want)
		}
	}
}

// streams are what a driver answers, one after the other; after the last it says that it has no such service.
type streams chan *stream

func (s streams) NodeWatchResources(ctx context.Context, _ *drahealthapi.NodeWatchResourcesRequest,
	_ ...grpc.CallOption) (grpc.ServerStreamingClient[drahealthapi.NodeWatchResourcesResponse], error) {
	next, ok := <-s
	if !ok {
		return nil, status.Error(codes.Unimplemented, "no health")
	}
	next.ctx = ctx
	return next, nil
}

type stream struct {
	grpc.ClientStream
	ctx  context.Context
	told chan []*drahealthapi.DeviceHealth // closed when it breaks
}

func (s *stream) Recv() (*drahealthapi.NodeWatchResourcesResponse, error) {
	select {
	case devices, ok := <-s.told:
		if !ok {
			return nil, errors.New("broken")
		}
		return &drahealthapi.NodeWatchResourcesResponse{Devices: devices}, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// A driver whose stream breaks is asked again after a while; meanwhile its devices' health becomes too old. One that
// has no such service isn't asked again.
func TestHealthWatch(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1000, 0))
	answers, changes := make(streams, 1), make(chan []deviceID)
	watch := &healthWatch{driver: driverName, client: answers, cache: &healthCache{}, clock: clock,
		changed: func(ids []deviceID) { changes <- ids }}
	ended := make(chan struct{})
	go func() { defer close(ended); watch.run(t.Context()) }()
	wantChange := func() {
		t.Helper()
		select {
		case got := <-changes:
			if !reflect.DeepEqual(got, []deviceID{id("d0")}) {
				t.Errorf("%v changed", got)
			}
		case <-ended:
			t.Fatal("the driver is not followed any more")
		case <-time.After(time.Minute):
			t.Fatal("no change is told")
		}
	}
	first := &stream{told: make(chan []*drahealthapi.DeviceHealth)}
	answers <- first
	first.told <- []*drahealthapi.DeviceHealth{health("d0", healthy, "", 1)}
	wantChange()
	first.told <- nil // nothing changed: nothing is told
	waitFor(t, clock, 1)
	clock.Step(healthPeriod) // too old by now
	wantChange()
	close(first.told)
	waitFor(t, clock, 2)
	second := &stream{told: make(chan []*drahealthapi.DeviceHealth)}
	answers <- second
	clock.Step(healthRetry)
	second.told <- []*drahealthapi.DeviceHealth{health("d0", unhealthy, "", 100)}
	wantChange()
	close(second.told)
	close(answers)
	waitFor(t, clock, 2)
	clock.Step(healthRetry)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("a driver without health is asked again and again")
	}
}

// waitFor waits until so many wait for the clock.
func waitFor(t *testing.T, clock *testclock.FakeClock, waiters int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); clock.Waiters() < waiters; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d wait for the clock, not %d", clock.Waiters(), waiters)
		}
	}
}

// Pods show the health of the devices that their containers asked for, and hear of changes.
func TestHealthOfPods(t *testing.T) {
	r := newRig(t, filepath.Join(t.TempDir(), "state"), &devicetest.Driver{}, claim("c", "u", "p1", "p2"))
	var told []types.UID
	r.HealthChanged = func(uid types.UID) { told = append(told, uid) }
	if got := r.Health(pod("p1", "c", "a")); len(got) != 0 {
		t.Errorf("before the claim is prepared: %v", got)
	}
	r.register(t)
	for _, uid := range []types.UID{"p2", "p1"} {
		if err := r.Prepare(t.Context(), pod(uid, "c", "a")); err != nil {
			t.Fatal(err)
		}
	}
	changed := r.Drivers.health.update(driverName, []*drahealthapi.DeviceHealth{health("d0", unhealthy, "hot", 0)},
		r.clock.Now())
	r.healthChanged(append(changed, id("unused")))
	if want := []types.UID{"p1", "p2"}; !reflect.DeepEqual(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	hot := "hot"
	sick := v1.ResourceHealth{ResourceID: "gpu.example.com/p/d0", Health: v1.ResourceHealthStatusUnhealthy, Message: &hot}
	unknown := func(device string) v1.ResourceHealth {
		return v1.ResourceHealth{ResourceID: v1.ResourceID("gpu.example.com/p/" + device),
			Health: v1.ResourceHealthStatusUnknown}
	}
	for request, want := range map[string]v1.ResourceStatus{
		"a": {Name: "claim:mine/a", Resources: []v1.ResourceHealth{sick, unknown("all")}},
		"b": {Name: "claim:mine/b", Resources: []v1.ResourceHealth{unknown("d1"), unknown("all")}},
		"":  {Name: "claim:mine", Resources: []v1.ResourceHealth{sick, unknown("d1"), unknown("all")}},
	} {
		got := r.Health(pod("p1", "c", request))
		if want := map[string][]v1.ResourceStatus{"c": {want}}; !reflect.DeepEqual(got, want) {
			t.Errorf("request %q: %+v, want %+v", request, got, want)
		}
	}
	if got := r.Health(pod("p3", "none", "a")); len(got) != 0 {
		t.Errorf("without a claim: %v", got)
	}
	told = nil
	r.healthChanged([]deviceID{id("unused")})
	r.HealthChanged = nil
	r.healthChanged([]deviceID{id("d0")})
	if len(told) != 0 {
		t.Errorf("told %v of devices that no pod has", told)
	}
}
