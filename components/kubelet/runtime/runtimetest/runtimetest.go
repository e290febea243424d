// Package runtimetest is the contract of runtime.Engine: every implementation passes it.
package runtimetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Subject is an engine under test.
type Subject struct {
	Engine runtime.Engine
	// PauseImage and Image are on the engine. Image, with Sleep as arguments, runs until it is stopped.
	PauseImage, Image string
	Sleep             []string
	// Spare is another image of the engine that no container uses, with two names; the test removes it.
	Spare [2]string
	// Program is what engines run that simulate no processes.
	Program Program
	// PodCIDRs are for the pods of this test.
	PodCIDRs []string
}

// waitTimeout bounds how long a test waits for a condition.
const waitTimeout = 60 * time.Second

// Run runs the contract.
func Run(t *testing.T, s Subject) {
	if err := s.Engine.SetPodCIDRs(t.Context(), s.PodCIDRs); err != nil {
		t.Fatalf("SetPodCIDRs: %v", err)
	}
	if err := s.Engine.SetPodCIDRs(t.Context(), s.PodCIDRs); err != nil {
		t.Fatalf("SetPodCIDRs again: %v", err)
	}
	for name, test := range map[string]func(*testing.T, Subject){
		"info": info, "life of a pod": life, "events": events, "absent": absent, "attempts": attempts, "images": images,
		"image removal": imageRemoval, "resize": resize,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
	about, err := s.Engine.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !about.Simulated.Processes {
		processes(t, s)
	}
}

func info(t *testing.T, s Subject) {
	got, err := s.Engine.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Name == "" || got.Version == "" || got.CPUs <= 0 || got.MemoryBytes <= 0 || got.Architecture == "" {
		t.Errorf("incomplete: %+v", got)
	}
}

func ref(name string) runtime.PodRef {
	return runtime.PodRef{UID: types.UID("contract-" + name), Namespace: "contract", Name: name}
}

func (s Subject) sandbox(t *testing.T, pod runtime.PodRef, attempt int) runtime.Sandbox {
	t.Helper()
	var created []string
	t.Cleanup(func() { s.clean(t, pod.UID) })
	id, err := s.Engine.CreateSandbox(t.Context(), &runtime.SandboxSpec{
		Pod: pod, Attempt: attempt, Image: s.PauseImage, Hostname: pod.Name,
		Created: func(id string) { created = append(created, id) },
	})
	if err != nil {
		t.Fatalf("CreateSandbox: %v", err)
	}
	if len(created) == 0 || created[len(created)-1] != id {
		t.Fatalf("Created was told %q, of sandbox %q", created, id)
	}
	found := s.pod(t, pod.UID)
	if sandbox := found.Sandbox(); sandbox != nil && sandbox.ID == id {
		return *sandbox
	}
	t.Fatalf("sandbox %s is not in %+v", id, found)
	return runtime.Sandbox{}
}

func (s Subject) container(t *testing.T, pod runtime.PodRef, sandbox runtime.Sandbox, name string, attempt int) string {
	t.Helper()
	id, err := s.Engine.CreateContainer(t.Context(), &runtime.ContainerSpec{
		Pod: pod, Name: name, Attempt: attempt, SandboxID: sandbox.ID, Hash: "hash", Image: s.Image, ImageID: s.Image,
		Args: s.Sleep, LogMaxSize: "1m", LogMaxFiles: 1,
	})
	if err != nil {
		t.Fatalf("CreateContainer: %v", err)
	}
	return id
}

func (s Subject) clean(t *testing.T, uid types.UID) {
	ctx := t.Context()
	if ctx.Err() != nil {
		ctx = cleanupContext()
	}
	pod, err := s.Engine.Pod(ctx, uid)
	if err != nil {
		t.Errorf("clean up: %v", err)
	}
	for _, c := range pod.Containers {
		if err := s.Engine.Remove(ctx, c.ID); err != nil {
			t.Errorf("clean up: %v", err)
		}
	}
	for _, sandbox := range pod.Sandboxes {
		if err := s.Engine.Remove(ctx, sandbox.ID); err != nil {
			t.Errorf("clean up: %v", err)
		}
	}
}

func (s Subject) pod(t *testing.T, uid types.UID) runtime.Pod {
	t.Helper()
	pod, err := s.Engine.Pod(t.Context(), uid)
	if err != nil {
		t.Fatalf("Pod: %v", err)
	}
	return pod
}

func life(t *testing.T, s Subject) {
	pod := ref("life")
	sandbox := s.sandbox(t, pod, 0)
	if sandbox.State != runtime.Running || len(sandbox.IPs) == 0 {
		t.Fatalf("new sandbox: %+v", sandbox)
	}
	id := s.container(t, pod, sandbox, "c", 0)
	if c := s.observe(t, pod.UID, "c"); c.State != runtime.Created || c.Hash != "hash" || c.SandboxID != sandbox.ID {
		t.Fatalf("created container: %+v", c)
	}
	if err := s.Engine.Start(t.Context(), id); err != nil {
		t.Fatalf("Start: %v", err)
	}
	got := s.pod(t, pod.UID)
	if c := got.Container("c"); c == nil || c.State != runtime.Running || c.Started.IsZero() || c.ID != id ||
		c.Image != s.Image {
		t.Fatalf("started container: %+v", c)
	}
	if got.UID != pod.UID || got.Name != pod.Name || got.Namespace != pod.Namespace || !got.AnyRunning() {
		t.Errorf("pod: %+v", got)
	}
	if err := s.Engine.Stop(t.Context(), id, 20*time.Second); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	if c := s.observe(t, pod.UID, "c"); c.State != runtime.Exited || c.Finished.IsZero() ||
		c.Finished.Before(c.Started) {
		t.Errorf("stopped container: %+v", c)
	}
	if err := s.Engine.Stop(t.Context(), id, time.Second); err != nil {
		t.Errorf("Stop of a stopped container: %v", err)
	}
	if err := s.Engine.Stop(t.Context(), sandbox.ID, 0); err != nil {
		t.Fatalf("Stop of the sandbox: %v", err)
	}
	if state := s.pod(t, pod.UID).Sandboxes[0].State; state != runtime.Exited {
		t.Errorf("stopped sandbox is %s", state)
	}
	s.clean(t, pod.UID)
	if left := s.pod(t, pod.UID); len(left.Containers)+len(left.Sandboxes) != 0 || left.UID != pod.UID {
		t.Errorf("left over: %+v", left)
	}
}

func resize(t *testing.T, s Subject) {
	pod := ref("resize")
	sandbox := s.sandbox(t, pod, 0)
	id, err := s.Engine.CreateContainer(t.Context(), &runtime.ContainerSpec{
		Pod: pod, Name: "c", SandboxID: sandbox.ID, Image: s.Image, ImageID: s.Image, Args: s.Sleep, LogMaxSize: "1m",
		LogMaxFiles:   1,
		Resources:     runtime.Resources{CPUShares: 256, CPUQuota: 50_000, CPUPeriod: 100_000, MemoryBytes: 64 << 20},
		MemoryRequest: 32 << 20,
	})
	if err == nil {
		err = s.Engine.Start(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
	started := s.observe(t, pod.UID, "c")
	wanted := runtime.Resources{CPUShares: 512, CPUQuota: 80_000, CPUPeriod: 100_000, MemoryBytes: 96 << 20}
	for _, change := range []runtime.Resources{wanted, {CPUShares: 128}} {
		if err := s.Engine.Resize(t.Context(), id, change); err != nil {
			t.Fatalf("Resize to %+v: %v", change, err)
		}
	}
	wanted.CPUShares = 128
	c := s.observe(t, pod.UID, "c")
	if c.Resources != wanted || c.MemoryRequest != 32<<20 {
		t.Errorf("resized: %+v of memory request %d, want %+v", c.Resources, c.MemoryRequest, wanted)
	}
	if c.State != runtime.Running || !c.Started.Equal(started.Started) {
		t.Errorf("it was started again: %+v", c)
	}
	if err := s.Engine.Resize(t.Context(), "absent", wanted); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("Resize of what isn't there: %v", err)
	}
}

func (s Subject) observe(t *testing.T, uid types.UID, name string) runtime.Container {
	t.Helper()
	pod := s.pod(t, uid)
	c := pod.Container(name)
	if c == nil {
		t.Fatalf("container %s is gone", name)
	}
	return *c
}

func events(t *testing.T, s Subject) {
	stream, err := s.Engine.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pod := ref("events")
	expect := func(what string) {
		t.Helper()
		deadline := time.After(waitTimeout)
		for {
			select {
			case uid, ok := <-stream:
				if !ok {
					t.Fatalf("events ended before %s", what)
				}
				if uid == pod.UID {
					return
				}
			case <-deadline:
				t.Fatalf("no event for %s", what)
			}
		}
	}
	sandbox := s.sandbox(t, pod, 0)
	expect("the sandbox's start")
	id := s.container(t, pod, sandbox, "c", 0)
	if err := s.Engine.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	expect("the container's start")
	if err := s.Engine.Stop(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	expect("the container's end")
}

func absent(t *testing.T, s Subject) {
	if err := s.Engine.Stop(t.Context(), "absent", 0); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if err := s.Engine.Remove(t.Context(), "absent"); err != nil {
		t.Errorf("Remove: %v", err)
	}
	if err := s.Engine.Start(t.Context(), "absent"); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("Start: %v", err)
	}
	if err := s.Engine.Logs(t.Context(), "absent", runtime.LogOptions{}, nil, nil); !errors.Is(err,
		runtime.ErrNotFound) {
		t.Errorf("Logs: %v", err)
	}
	if pod := s.pod(t, "absent"); len(pod.Containers)+len(pod.Sandboxes) != 0 {
		t.Errorf("Pod: %+v", pod)
	}
}

func attempts(t *testing.T, s Subject) {
	pod := ref("attempts")
	sandbox := s.sandbox(t, pod, 0)
	for attempt := range 3 {
		id := s.container(t, pod, sandbox, "c", attempt)
		if err := s.Engine.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if attempt < 2 {
			if err := s.Engine.Stop(t.Context(), id, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := s.pod(t, pod.UID)
	var order []int
	for _, c := range got.Containers {
		order = append(order, c.Attempt)
	}
	if !slices.Equal(order, []int{2, 1, 0}) {
		t.Errorf("attempts are %v, want the newest first", order)
	}
	if c := got.Container("c"); c.State != runtime.Running {
		t.Errorf("newest: %+v", c)
	}
	if c := got.Previous("c"); c == nil || c.Attempt != 1 || c.State != runtime.Exited {
		t.Errorf("previous: %+v", c)
	}
	all, err := s.Engine.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(all, func(p runtime.Pod) bool { return p.UID == pod.UID && len(p.Containers) == 3 }) {
		t.Error("Pods does not list the pod")
	}
}

func images(t *testing.T, s Subject) {
	image, err := s.Engine.Image(t.Context(), s.Image)
	if err != nil || image.ID == "" || image.Reference() == "" {
		t.Errorf("Image: %+v, %v", image, err)
	}
	disk, err := s.Engine.ImageFilesystem(t.Context())
	if err != nil || disk.Capacity <= 0 || disk.Available < 0 || disk.Available > disk.Capacity {
		t.Errorf("ImageFilesystem: %+v, %v", disk, err)
	}
}

func (s Subject) lists(t *testing.T, id string) *runtime.Image {
	t.Helper()
	all, err := s.Engine.Images(t.Context())
	if err != nil {
		t.Fatalf("Images: %v", err)
	}
	if i := slices.IndexFunc(all, func(image runtime.Image) bool { return image.ID == id }); i >= 0 {
		return &all[i]
	}
	return nil
}

func imageRemoval(t *testing.T, s Subject) {
	pod := ref("image-removal")
	s.container(t, pod, s.sandbox(t, pod, 0), "c", 0)
	used, err := s.Engine.Image(t.Context(), s.Image)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Engine.RemoveImage(t.Context(), used.ID); err == nil {
		t.Error("the image of a container is removed")
	}
	var ids []string
	for _, name := range s.Spare {
		spare, err := s.Engine.Image(t.Context(), name)
		if err != nil {
			t.Fatalf("Image %s: %v", name, err)
		}
		if listed := s.lists(t, spare.ID); listed == nil || listed.SizeBytes <= 0 {
			t.Errorf("Images has %s as %+v", name, listed)
		}
		ids = append(ids, spare.ID)
	}
	for i, id := range ids {
		for range 2 { // the second time, it is gone
			if err := s.Engine.RemoveImage(t.Context(), id); err != nil {
				t.Errorf("RemoveImage: %v", err)
			}
		}
		if s.lists(t, id) != nil {
			t.Errorf("Images still has %s", s.Spare[i])
		}
		if _, err := s.Engine.Image(t.Context(), s.Spare[i]); !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("Image of a removed one: %v", err)
		}
	}
}

// cleanupContext outlives the test, as its clean-up does.
func cleanupContext() context.Context { return context.Background() }
