package images

import (
	"context"
	"encoding/base64"
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
)

// registry is an image store that pulls what it has elsewhere.
type registry struct {
	local, remote map[string]bool
	credentials   []runtime.Credential
	pulls         int
}

func (r *registry) Image(_ context.Context, ref string) (runtime.Image, error) {
	if r.local[ref] {
		return runtime.Image{ID: ref}, nil
	}
	return runtime.Image{}, runtime.ErrNotFound
}

func (r *registry) Images(context.Context) ([]runtime.Image, error) { return nil, nil }

func (r *registry) Pull(_ context.Context, ref string, credentials []runtime.Credential) (runtime.Image, error) {
	r.pulls++
	r.credentials = credentials
	if r.remote[ref] {
		return runtime.Image{ID: ref}, nil
	}
	return runtime.Image{}, errors.New("no such image")
}

func (r *registry) Secret(context.Context, string, string) (*v1.Secret, error) {
	auth := base64.StdEncoding.EncodeToString([]byte("me:pass"))
	return &v1.Secret{Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":{"https://reg.example/v1/":{"auth":"` + auth + `"},"other.example":{"username":"x"}}}`)}}, nil
}

func TestEnsure(t *testing.T) {
	for name, test := range map[string]struct {
		image  string
		policy v1.PullPolicy
		reason string
		pulls  int
	}{
		"present":              {"here:1", v1.PullIfNotPresent, "", 0},
		"present, never":       {"here:1", v1.PullNever, "", 0},
		"always":               {"there:1", v1.PullAlways, "", 1},
		"absent":               {"there:1", v1.PullIfNotPresent, "", 1},
		"absent, never":        {"there:1", v1.PullNever, "ErrImageNeverPull", 0},
		"nowhere":              {"no:1", v1.PullIfNotPresent, "ErrImagePull", 1},
		"no name":              {"UPPER//", v1.PullIfNotPresent, "InvalidImageName", 0},
		"here, but not remote": {"here:1", v1.PullAlways, "ErrImagePull", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := &registry{local: map[string]bool{"here:1": true}, remote: map[string]bool{"there:1": true}}
			p := &Puller{Images: r, Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)), Limits: plan.Limits{Initial: 10 * time.Second, Max: 5 * time.Minute}}
			_, err := p.Ensure(t.Context(), &v1.Pod{}, &v1.Container{Image: test.image, ImagePullPolicy: test.policy}, func(string, string, string, ...any) {})
			var failure *Error
			if errors.As(err, &failure) != (test.reason != "") || (failure != nil && failure.Reason != test.reason) {
				t.Errorf("got %v, want %q", err, test.reason)
			}
			if r.pulls != test.pulls {
				t.Errorf("%d pulls, want %d", r.pulls, test.pulls)
			}
		})
	}
}

func TestPullsBackOff(t *testing.T) {
	r := &registry{}
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	p := &Puller{Images: r, Clock: now, Limits: plan.Limits{Initial: 10 * time.Second, Max: 5 * time.Minute}}
	ensure := func() string {
		_, err := p.Ensure(t.Context(), &v1.Pod{}, &v1.Container{Image: "no:1"}, func(string, string, string, ...any) {})
		var failure *Error
		if !errors.As(err, &failure) {
			t.Fatalf("got %v", err)
		}
		return failure.Reason
	}
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{0, "ErrImagePull"}, {0, "ImagePullBackOff"}, {9 * time.Second, "ImagePullBackOff"}, {time.Second, "ErrImagePull"}, {19 * time.Second, "ImagePullBackOff"}, {time.Second, "ErrImagePull"}} {
		now.SetTime(now.Now().Add(step.after))
		if got := ensure(); got != step.want {
			t.Errorf("after %v: %s, want %s", step.after, got, step.want)
		}
	}
	if at := p.RetryAt("", "no:1"); !at.Equal(now.Now().Add(40 * time.Second)) {
		t.Errorf("retry at %v", at)
	}
	p.Forget("")
	if got := ensure(); got != "ErrImagePull" {
		t.Errorf("a new pod waits for the old one's back-off: %s", got)
	}
}

// slow is an image store whose pulls last until they are let go.
type slow struct {
	registry
	began chan struct{}
	let   chan struct{}
}

func (s *slow) Pull(_ context.Context, ref string, _ []runtime.Credential) (runtime.Image, error) {
	s.began <- struct{}{}
	<-s.let
	return runtime.Image{ID: ref}, nil
}

// A pod that is deleted does not wait for the pull of another one to end.
func TestPullsWaitNoLongerThanTheirPod(t *testing.T) {
	s := &slow{began: make(chan struct{}, 2), let: make(chan struct{})}
	p := &Puller{Images: s, Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)), Serialize: true}
	pull := func(ctx context.Context, image string) error {
		_, err := p.Ensure(ctx, &v1.Pod{}, &v1.Container{Image: image}, func(string, string, string, ...any) {})
		return err
	}
	first := make(chan error, 1)
	go func() { first <- pull(t.Context(), "a:1") }()
	<-s.began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var failure *Error
	if err := pull(ctx, "b:1"); !errors.As(err, &failure) || failure.Reason != "ErrImagePull" {
		t.Errorf("got %v", err)
	}
	close(s.let)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if at := p.RetryAt("", "b:1"); !at.IsZero() {
		t.Error("a pull that was given up counts as failed")
	}
	if err := pull(t.Context(), "b:1"); err != nil {
		t.Error(err)
	}
}

func TestCredentialsFitTheRegistry(t *testing.T) {
	r := &registry{remote: map[string]bool{"reg.example/app:1": true}}
	p := &Puller{Images: r, Secrets: r, Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0))}
	pod := &v1.Pod{Spec: v1.PodSpec{ImagePullSecrets: []v1.LocalObjectReference{{Name: "s"}}}}
	if _, err := p.Ensure(t.Context(), pod, &v1.Container{Image: "reg.example/app:1"}, func(string, string, string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	if len(r.credentials) != 1 || r.credentials[0].Username != "me" || r.credentials[0].Password != "pass" {
		t.Errorf("got %+v", r.credentials)
	}
}

func TestPolicy(t *testing.T) {
	for image, want := range map[string]v1.PullPolicy{"a": v1.PullAlways, "a:latest": v1.PullAlways, "a:1": v1.PullIfNotPresent, "r:5000/a": v1.PullAlways, "r:5000/a:2": v1.PullIfNotPresent} {
		if got := Policy(&v1.Container{Image: image}); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
}
