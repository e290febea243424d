package imagegc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/kubelet/runtime"
)

func TestValidate(t *testing.T) {
	for want, policy := range map[string]Policy{
		"":                               {85, 80, 2 * time.Minute, 0},
		"HighThresholdPercent":           {101, 80, 0, 0},
		"LowThresholdPercent":            {85, -1, 0, 0},
		"must be less than":              {80, 80, 0, 0},
		"must be greater than":           {85, 80, time.Minute, time.Minute},
		"imageMaximumGCAge -1s must not": {85, 80, 0, -time.Second},
	} {
		if err := policy.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", policy, err, want)
		}
	}
}

func TestExcess(t *testing.T) {
	policy := Policy{HighThreshold: 85, LowThreshold: 80}
	for _, test := range []struct{ available, want int64 }{
		{1000, 0}, {500, 0}, {160, 0}, {151, 49}, {150, 50}, {0, 200}, {2000, 0},
	} {
		got := policy.excess(runtime.Filesystem{Capacity: 1000, Available: test.available})
		if got != test.want {
			t.Errorf("%d available: %d, want %d", test.available, got, test.want)
		}
	}
}

// disk is an engine whose images and containers are lists of names; an image has as many bytes as its name says.
type disk struct {
	images, used []string
	capacity     int64
	stuck        string // the image that can't be removed
	removed      []string
	broken       error
}

func (d *disk) size(id string) (bytes int64) {
	_, _ = fmt.Sscanf(id[strings.Index(id, "-")+1:], "%d", &bytes)
	return bytes
}

func (d *disk) Image(_ context.Context, ref string) (runtime.Image, error) {
	if slices.Contains(d.images, ref) {
		return runtime.Image{ID: ref}, nil
	}
	return runtime.Image{}, runtime.ErrNotFound
}

func (d *disk) Images(context.Context) ([]runtime.Image, error) {
	var list []runtime.Image
	for _, id := range d.images {
		image := runtime.Image{ID: id, SizeBytes: d.size(id), Digests: []string{"registry/" + id}}
		if strings.HasPrefix(id, "loaded-") {
			image.Digests = []string{"<none>@<none>"}
		}
		list = append(list, image)
	}
	return list, d.broken
}

func (d *disk) Pull(context.Context, string, runtime.Credential) (runtime.Image, error) {
	return runtime.Image{}, errors.ErrUnsupported
}

func (d *disk) RemoveImage(_ context.Context, id string) error {
	if id == d.stuck {
		return errors.New("it is stuck")
	}
	d.images = slices.DeleteFunc(d.images, func(other string) bool { return other == id })
	d.removed = append(d.removed, id)
	return nil
}

func (d *disk) ImageFilesystem(context.Context) (runtime.Filesystem, error) {
	left := d.capacity
	for _, id := range d.images {
		left -= d.size(id)
	}
	return runtime.Filesystem{Capacity: d.capacity, Available: left}, nil
}

func (d *disk) Pods(context.Context) ([]runtime.Pod, error) {
	var pod runtime.Pod
	for _, id := range d.used {
		pod.Containers = append(pod.Containers, runtime.Container{ImageID: id})
	}
	return []runtime.Pod{pod}, nil
}

// rig is a collector over a disk of 1000 bytes, with upstream's thresholds.
type rig struct {
	*disk
	*Collector
	clock *testclock.FakeClock

	mu     sync.Mutex
	events []string
}

func (r *rig) event(kind, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, kind+" "+reason+" "+message)
}

func (r *rig) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func newRig(policy Policy, images ...string) *rig {
	r := &rig{disk: &disk{images: images, capacity: 1000}, clock: testclock.NewFakeClock(time.Unix(1_000_000, 0))}
	r.Collector = New(Config{Engine: r.disk, Policy: policy, Pinned: []string{"pause-1", "absent"}, Clock: r.clock,
		Event: r.event})
	return r
}

var usual = Policy{HighThreshold: 85, LowThreshold: 80, MinimumAge: 2 * time.Minute}

func TestCollectRemovesTheLeastRecentlyUsed(t *testing.T) {
	r := newRig(usual, "pause-1", "a-100", "b-100", "c-100", "d-100")
	step := func(used ...string) {
		t.Helper()
		r.used = used
		if err := r.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.clock.Step(time.Hour)
	}
	step("b-100", "d-100")
	step("a-100", "d-100")
	r.images = append(r.images, "new-450") // 851 bytes are used: 51 must go
	step("d-100")
	if !slices.Equal(r.removed, []string{"c-100"}) { // which was never used
		t.Fatalf("removed %v", r.removed)
	}
	r.images = append(r.images, "more-250")
	step("d-100")
	if !slices.Equal(r.removed, []string{"c-100", "new-450"}) { // never used either; found before the others' last use
		t.Errorf("removed %v", r.removed)
	}
	r.images = append(r.images, "again-400")
	step("d-100") // 951 are used
	if !slices.Equal(r.removed[2:], []string{"more-250"}) {
		t.Errorf("removed %v", r.removed)
	}
	if len(r.events) > 0 {
		t.Errorf("events %v", r.events)
	}
}

func TestCollectSparesYoungUsedPinnedAndLoadedImages(t *testing.T) {
	r := newRig(usual, "pause-1", "used-400", "loaded-100")
	r.used = []string{"used-400"}
	if err := r.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.images = append(r.images, "young-400")
	err := r.Collect(t.Context())
	const want = "Failed to garbage collect required amount of images. Attempted to free 101 bytes, " +
		"but only found 0 bytes eligible to free."
	if err == nil || err.Error() != want || !slices.Equal(r.events, []string{"Warning FreeDiskSpaceFailed " + want}) {
		t.Errorf("%v, events %v", err, r.events)
	}
	r.clock.Step(usual.MinimumAge)
	if err := r.Collect(t.Context()); err != nil || !slices.Equal(r.removed, []string{"young-400"}) {
		t.Errorf("%v, removed %v", err, r.removed)
	}
}

// TestMountedImagesStay: an image that is a volume of a pod is in use, and what can't be found out of volumes keeps
// all.
func TestMountedImagesStay(t *testing.T) {
	r := newRig(usual, "mounted-500", "unused-400")
	failure := errors.New("unreadable")
	r.Mounted = func() ([]string, error) { return nil, failure }
	if err := r.Collect(t.Context()); !errors.Is(err, failure) || len(r.removed) > 0 {
		t.Errorf("%v, removed %v", err, r.removed)
	}
	r.Mounted = func() ([]string, error) { return []string{"mounted-500"}, nil }
	if err := r.Collect(t.Context()); err != nil || !slices.Equal(r.removed, []string{"unused-400"}) {
		t.Errorf("%v, removed %v", err, r.removed)
	}
}

func TestCollectByAge(t *testing.T) {
	policy := usual
	policy.MaximumAge = time.Hour
	r := newRig(policy, "pause-1", "old-1", "kept-1")
	for minute := range 121 {
		r.used = []string{"kept-1"}
		if minute < 30 {
			r.used = append(r.used, "old-1")
		}
		if err := r.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if gone := len(r.removed) > 0; gone != (minute > 29+60) {
			t.Fatalf("after %d minutes: removed %v", minute, r.removed)
		}
		r.clock.Step(time.Minute)
	}
	if !slices.Equal(r.removed, []string{"old-1"}) {
		t.Errorf("removed %v", r.removed)
	}
}

func TestCollectorThatIsOffOnlyLooks(t *testing.T) {
	r := newRig(Policy{HighThreshold: 100, LowThreshold: 80}, "a-990")
	var listed []string
	r.Listed = func(ids []string, at time.Time) { listed = ids }
	if err := r.Collect(t.Context()); err != nil || len(r.removed) > 0 || !slices.Equal(listed, []string{"a-990"}) {
		t.Errorf("%v, removed %v, listed %v", err, r.removed, listed)
	}
	if err := r.DeleteUnused(t.Context()); err != nil || len(r.removed) != 1 {
		t.Errorf("asked for: %v, removed %v", err, r.removed)
	}
}

func TestImagesThatCannotBeRemoved(t *testing.T) {
	r := newRig(usual, "a-100", "b-100")
	r.stuck = "a-100"
	err := r.DeleteUnused(t.Context())
	if err == nil || !strings.HasSuffix(err.Error(),
		"but freed 100 bytes space with errors in image deletion: it is stuck") ||
		!slices.Equal(r.removed, []string{"b-100"}) {
		t.Errorf("%v, removed %v", err, r.removed)
	}
	r.capacity = 0
	if err := r.Collect(t.Context()); err == nil || len(r.events) != 1 ||
		r.events[0] != "Warning InvalidDiskCapacity invalid capacity 0 on image filesystem" {
		t.Errorf("%v, events %v", err, r.events)
	}
}

// One failure may come of a disk that is not measured yet; only the second one is told.
func TestRunTellsOfRepeatedFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(usual)
		r.broken, r.Clock = errors.New("no answer"), clock.RealClock{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.Run(ctx)
		for _, want := range []int{0, 1, 2} {
			synctest.Wait()
			if told := r.told(); len(told) != want {
				t.Errorf("events %v, want %d", told, want)
			}
			time.Sleep(period)
		}
		if told := r.told(); told[0] != "Warning ImageGCFailed no answer" {
			t.Errorf("events %v", told)
		}
	})
}
