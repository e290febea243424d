package images

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"quintet.dev/quintet/components/kubelet/images/records"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
)

// registry is an image store that pulls what it has elsewhere.
type registry struct {
	local, remote map[string]bool
	password      string // that pulls need, "" for none
	tried         []string
	inspect       error
	pause         time.Duration // of a pull

	mu        sync.Mutex
	now, most int // pulls at a time
}

func newRegistry() *registry {
	return &registry{local: map[string]bool{"here:1": true}, remote: map[string]bool{"there:1": true,
		"reg.io/app:1": true, "there@" + digest: true}}
}

const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func (r *registry) Image(_ context.Context, ref string) (runtime.Image, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inspect != nil {
		return runtime.Image{}, r.inspect
	}
	if r.local[ref] {
		return runtime.Image{ID: "id of " + ref, SizeBytes: 7}, nil
	}
	return runtime.Image{}, runtime.ErrNotFound
}

func (r *registry) Images(context.Context) ([]runtime.Image, error) { return nil, nil }

func (r *registry) Pull(_ context.Context, ref string, credential runtime.Credential) (runtime.Image, error) {
	r.mu.Lock()
	r.tried = append(r.tried, credential.Password)
	r.now++
	r.most = max(r.most, r.now)
	r.mu.Unlock()
	time.Sleep(r.pause)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now--
	if r.password != "" && credential.Password != r.password {
		return runtime.Image{}, errors.New("unauthorized")
	}
	if r.remote[ref] {
		r.local[ref] = true
		return runtime.Image{ID: "id of " + ref, SizeBytes: 7}, nil
	}
	return runtime.Image{}, errors.New("no such image")
}

func (r *registry) RemoveImage(_ context.Context, id string) error { return nil }
func (r *registry) ImageFilesystem(context.Context) (runtime.Filesystem, error) {
	return runtime.Filesystem{}, nil
}

// Secret is one that has its own name for a password.
func (r *registry) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	if name == "absent" {
		return nil, errors.New("not found")
	}
	auth := base64.StdEncoding.EncodeToString([]byte("me:" + name))
	data := `{"auths":{"https://reg.io/v1/":{"auth":"` + auth + `"},"other.io":{"username":"x"}}}`
	if name == "broken" {
		data = "x"
	}
	return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID(namespace + name)},
		Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(data)}}, nil
}

func newPuller(r *registry) *Puller {
	return &Puller{Images: r, Credentials: Credentials{Secrets: r},
		Clock:  clocktesting.NewFakePassiveClock(time.Unix(1000, 0)),
		Limits: plan.Limits{Initial: 10 * time.Second, Max: 5 * time.Minute}}
}

// ensure returns the reason and message of a failure, "" for none, and the events.
func ensure(t *testing.T, p *Puller, pod *v1.Pod, image string, policy v1.PullPolicy) (reason, message string,
	events []string) {
	t.Helper()
	_, err := p.Ensure(t.Context(), pod, &v1.Container{Image: image, ImagePullPolicy: policy},
		func(kind, reason, format string, args ...any) {
			events = append(events, kind+" "+reason+" "+fmt.Sprintf(format, args...))
		})
	var failure *Error
	if errors.As(err, &failure) {
		return failure.Reason, failure.Message, events
	}
	if err != nil {
		t.Fatal(err)
	}
	return "", "", events
}

func podWith(namespace string, secrets ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, UID: "uid"}}
	for _, name := range secrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: name})
	}
	return pod
}

func TestEnsure(t *testing.T) {
	const present = `Normal Pulled Container image "here:1" already present on machine and can be accessed by the pod`
	pulled := func(image string) []string {
		return []string{fmt.Sprintf("Normal Pulling Pulling image %q", image),
			fmt.Sprintf("Normal Pulled Successfully pulled image %q in 0s (0s including waiting). Image size: 7 bytes.", image)}
	}
	failed := func(image string) []string {
		return []string{fmt.Sprintf("Normal Pulling Pulling image %q", image),
			fmt.Sprintf("Warning Failed Failed to pull image %q: no such image", image), "Warning Failed Error: ErrImagePull"}
	}
	for name, test := range map[string]struct {
		image   string
		policy  v1.PullPolicy
		inspect error
		reason  string
		events  []string
	}{
		"present":        {"here:1", v1.PullIfNotPresent, nil, "", []string{present}},
		"present, never": {"here:1", v1.PullNever, nil, "", []string{present}},
		"always":         {"there:1", v1.PullAlways, nil, "", pulled("there:1")},
		"absent":         {"there:1", v1.PullIfNotPresent, nil, "", pulled("there:1")},
		"by digest":      {"there@" + digest, "", nil, "", pulled("there@" + digest)},
		"absent, never": {"there:1", v1.PullNever, nil, "ErrImageNeverPull", []string{
			`Warning ErrImageNeverPull Container image "there:1" is not present with pull policy of Never`}},
		"nowhere":              {"no:1", v1.PullIfNotPresent, nil, "ErrImagePull", failed("no:1")},
		"here, but not remote": {"here:1", v1.PullAlways, nil, "ErrImagePull", failed("here:1")},
		"no name": {"UPPER//", v1.PullIfNotPresent, nil, "InvalidImageName", []string{
			`Warning InspectFailed Failed to apply default image tag "UPPER//": couldn't parse ` +
				`image reference "UPPER//": invalid reference format`}},
		"no answer": {"here:1", v1.PullIfNotPresent, errors.New("busy"), "ImageInspectError", []string{
			`Warning InspectFailed Failed to inspect image "here:1": busy`}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegistry()
			r.inspect = test.inspect
			reason, _, events := ensure(t, newPuller(r), &v1.Pod{}, test.image, test.policy)
			if reason != test.reason || !slices.Equal(events, test.events) {
				t.Errorf("got %q, want %q; events\n%q, want\n%q", reason, test.reason, events, test.events)
			}
		})
	}
}

// A registry that is down for a while costs a back-off that grows, and is found up again at its end.
func TestPullsBackOff(t *testing.T) {
	r := newRegistry()
	p := newPuller(r)
	now := p.Clock.(*clocktesting.FakePassiveClock)
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{0, "ErrImagePull"}, {0, "ImagePullBackOff"}, {9 * time.Second, "ImagePullBackOff"},
		{time.Second, "ErrImagePull"}, {19 * time.Second, "ImagePullBackOff"}, {time.Second, "ErrImagePull"}} {
		now.SetTime(now.Now().Add(step.after))
		reason, message, events := ensure(t, p, &v1.Pod{}, "no:1", "")
		if reason != step.want {
			t.Errorf("after %v: %s, want %s", step.after, reason, step.want)
		}
		if reason == "ImagePullBackOff" && (message !=
			`Back-off pulling image "no:1": ErrImagePull: failed to pull image "no:1": no such image` ||
			!slices.Equal(events, []string{`Normal BackOff Back-off pulling image "no:1"`})) {
			t.Errorf("%q, events %q", message, events)
		}
	}
	if at := p.RetryAt("", "no:1"); !at.Equal(now.Now().Add(40 * time.Second)) {
		t.Errorf("retry at %v", at)
	}
	r.remote["no:1"] = true
	now.SetTime(p.RetryAt("", "no:1"))
	if reason, _, _ := ensure(t, p, &v1.Pod{}, "no:1", ""); reason != "" || !p.RetryAt("", "no:1").IsZero() {
		t.Errorf("after the registry is back: %q", reason)
	}
	delete(r.remote, "no:1")
	ensure(t, p, &v1.Pod{}, "no:1", v1.PullAlways)
	p.Forget("")
	if got, _, _ := ensure(t, p, &v1.Pod{}, "no:1", v1.PullAlways); got != "ErrImagePull" {
		t.Errorf("a new pod waits for the old one's back-off: %s", got)
	}
}

// fewPulls lets so many pulls pass.
type fewPulls int

func (f *fewPulls) TryAccept() bool { *f--; return *f >= 0 }

// TestPullsAreLimited: only pulls count, and one too many fails as upstream's does.
func TestPullsAreLimited(t *testing.T) {
	p := newPuller(newRegistry())
	p.Rate = new(fewPulls(1))
	for i, step := range []struct{ image, want string }{
		{"here:1", ""}, {"there:1", ""}, {"here:1", ""},
		{"reg.io/app:1", `failed to pull image "reg.io/app:1": pull QPS exceeded`},
	} {
		reason, message, _ := ensure(t, p, &v1.Pod{}, step.image, "")
		if message != step.want || (reason == "ErrImagePull") != (step.want != "") {
			t.Errorf("step %d: %s, %q", i, reason, message)
		}
	}
}

func TestPullsAtATime(t *testing.T) {
	for _, test := range []struct{ parallel, most int }{{1, 1}, {3, 3}, {0, 8}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRegistry()
			r.pause = time.Minute
			p := newPuller(r)
			p.Clock, p.Parallel = clock.RealClock{}, test.parallel
			began, lasts := time.Now(), make(chan string, 8)
			for range 8 {
				go func() {
					_, _, events := ensure(t, p, &v1.Pod{}, "there:1", v1.PullAlways)
					lasts <- events[1]
				}()
			}
			waited := false
			for range 8 {
				last := <-lasts
				waited = waited || !strings.Contains(last, "in 1m0s (1m0s including waiting)")
				if !strings.Contains(last, "in 1m0s (") {
					t.Errorf("%d at a time: %s", test.parallel, last)
				}
			}
			if rounds := time.Duration((8 + test.most - 1) / test.most); r.most != test.most ||
				time.Since(began) != rounds*time.Minute || waited != (rounds > 1) {
				t.Errorf("%d at a time: %d, in %v", test.parallel, r.most, time.Since(began))
			}
		})
	}
}

// A pod that is deleted does not wait for the pull of another one to end.
func TestPullsWaitNoLongerThanTheirPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		r.pause = time.Minute
		p := newPuller(r)
		p.Parallel = 1
		pull := func(ctx context.Context) error {
			_, err := p.Ensure(ctx, &v1.Pod{}, &v1.Container{Image: "there:1"}, func(string, string, string, ...any) {})
			return err
		}
		first := make(chan error, 1)
		go func() { first <- pull(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var failure *Error
		if err := pull(ctx); !errors.As(err, &failure) || failure.Reason != "ErrImagePull" {
			t.Errorf("got %v", err)
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
		if at := p.RetryAt("", "there:1"); !at.IsZero() {
			t.Error("a pull that was given up counts as failed")
		}
	})
}

func TestSecrets(t *testing.T) {
	const image = "reg.io/app:1"
	for name, test := range map[string]struct {
		secrets []string
		tried   []string
		reason  string
		event   string // the first
	}{
		"right":        {[]string{"right"}, []string{"right"}, "", "Normal Pulling"},
		"after wrong":  {[]string{"wrong", "right"}, []string{"wrong", "right"}, "", "Normal Pulling"},
		"wrong":        {[]string{"wrong"}, []string{"wrong"}, "ErrImagePull", "Normal Pulling"},
		"none":         {nil, []string{""}, "ErrImagePull", "Normal Pulling"},
		"without name": {[]string{""}, []string{""}, "ErrImagePull", "Normal Pulling"},
		"absent": {[]string{"absent", "right"}, []string{"right"}, "", "Warning FailedToRetrieveImagePullSecret Unable to " +
			"retrieve some image pull secrets (absent); attempting to pull the image may not succeed."},
		"broken": {[]string{"broken", "right"}, nil, "ErrImagePull", ""},
	} {
		r := newRegistry()
		r.password = "right"
		reason, message, events := ensure(t, newPuller(r), podWith("ns", test.secrets...), image, "")
		if reason != test.reason || !slices.Equal(r.tried, test.tried) ||
			test.event != "" && !strings.HasPrefix(events[0], test.event) {
			t.Errorf("%s: %q %q, tried %q, events %q", name, reason, message, r.tried, events)
		}
	}
}

// An image that came with a secret is for pods that have one.
func TestImagesOfTheNodeAreNotForEverybody(t *testing.T) {
	r := newRegistry()
	r.password = "right"
	p := newPuller(r)
	policy, err := records.NewPolicy(kubeletconfig.NeverVerifyPreloadedImages, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p.Records, err = records.Open(t.Context(), t.TempDir(), policy, p.Clock, r); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		pod    *v1.Pod
		image  string
		policy v1.PullPolicy
		reason string
		pulls  int
	}{
		{podWith("a"), "here:1", "", "", 0}, // preloaded
		{podWith("a", "right"), "reg.io/app:1", "", "", 1},
		{podWith("a", "right"), "reg.io/app:1", "", "", 1},
		{podWith("b", "right"), "reg.io/app:1", "", "", 1}, // the same content
		{podWith("b"), "reg.io/app:1", v1.PullNever, "ErrImageNeverPull", 1},
		{podWith("b", "wrong"), "reg.io/app:1", "", "ErrImagePull", 2},
		{podWith("b", "wrong"), "reg.io/app:1", "", "ImagePullBackOff", 2},
	} {
		reason, message, _ := ensure(t, p, step.pod, step.image, step.policy)
		if reason != step.reason || len(r.tried) != step.pulls {
			t.Errorf("%s of %+v: %q %q, pulls %q", step.image, step.pod.Spec.ImagePullSecrets, reason, message, r.tried)
		}
	}
}

func TestPolicy(t *testing.T) {
	for image, want := range map[string]v1.PullPolicy{"a": v1.PullAlways, "a:latest": v1.PullAlways,
		"a:1": v1.PullIfNotPresent, "r:5000/a": v1.PullAlways, "r:5000/a:2": v1.PullIfNotPresent,
		"a@" + digest: v1.PullIfNotPresent, "a:latest@" + digest: v1.PullAlways} {
		if got := Policy(&v1.Container{Image: image}); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
}
