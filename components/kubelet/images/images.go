// Package images pulls the images of containers by their pull policy.
package images

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/images/keyring"
	"quintet.dev/quintet/components/kubelet/images/records"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
)

// Error is a failure as a container status reports it: ErrImagePull, ImagePullBackOff, ErrImageNeverPull or
// InvalidImageName.
type Error struct{ Reason, Message string }

func (e *Error) Error() string { return e.Message }

// Puller pulls images, with a back-off per pod and image. It is safe for concurrent use.
type Puller struct {
	Images      runtime.Images
	Credentials Credentials
	// Records are of the images that were pulled; without them a pod may have every image of the node.
	Records *records.Manager
	Clock   clock.PassiveClock
	Limits  plan.Limits
	// Parallel is how many images are pulled at a time, 0 any number.
	Parallel int
	// Rate refuses pulls beyond what registries take; nil refuses none.
	Rate Rate
	// Pulled, if set, is called with the size of each image that was pulled for a pod, and how long that took.
	Pulled func(uid types.UID, bytes int64, took time.Duration)

	mu      sync.Mutex
	backoff map[pullKey]failure
	pulling chan struct{} // holds a value for each pull under way, where their number is limited
}

// Rate limits how often something is done.
type Rate interface{ TryAccept() bool }

type pullKey struct {
	pod   types.UID
	image string
}

type failure struct {
	plan.Backoff
	message string
}

// Record records the events of pulls on the pod.
type Record func(eventType, reason, format string, args ...any)

// request is one container's for its image.
type request struct {
	pod        *v1.Pod
	image      string // as the container has it
	repository string // without tag and digest, with its registry
	record     Record
}

// Ensure makes sure that a container's image is on the node, and that the pod may have it. Errors are of type *Error.
func (p *Puller) Ensure(ctx context.Context, pod *v1.Pod, c *v1.Container, record Record) (runtime.Image, error) {
	named, err := reference.ParseNormalizedNamed(c.Image)
	if err != nil {
		message := fmt.Sprintf("Failed to apply default image tag %q: couldn't parse image reference %q: %v",
			c.Image, c.Image, err)
		record(v1.EventTypeWarning, "InspectFailed", "%s", message)
		return runtime.Image{}, &Error{"InvalidImageName", message}
	}
	r := &request{pod: pod, image: c.Image, repository: named.Name(), record: record}
	policy := Policy(c)
	if policy == v1.PullAlways {
		return p.pull(ctx, r)
	}
	image, found, err := p.present(ctx, r)
	if err != nil {
		return runtime.Image{}, err
	}
	if found {
		record(v1.EventTypeNormal, "Pulled",
			"Container image %q already present on machine and can be accessed by the pod", c.Image)
		return image, nil
	}
	if policy == v1.PullNever {
		message := fmt.Sprintf("Container image %q is not present with pull policy of Never", c.Image)
		record(v1.EventTypeWarning, "ErrImageNeverPull", "%s", message)
		return runtime.Image{}, &Error{"ErrImageNeverPull", message}
	}
	return p.pull(ctx, r)
}

// present finds an image on the node that the pod may have without pulling it.
func (p *Puller) present(ctx context.Context, r *request) (runtime.Image, bool, error) {
	image, err := p.Images.Image(ctx, r.image)
	if errors.Is(err, runtime.ErrNotFound) {
		return runtime.Image{}, false, nil
	}
	if err != nil {
		message := fmt.Sprintf("Failed to inspect image %q: %v", r.image, err)
		r.record(v1.EventTypeWarning, "InspectFailed", "%s", message)
		return runtime.Image{}, false, &Error{"ImageInspectError", message}
	}
	if p.Records == nil {
		return image, true, nil
	}
	must, err := p.Records.MustPull(ctx, r.image, image.ID, func() ([]keyring.Entry, error) {
		return p.Credentials.lookup(ctx, r.pod, r.repository, r.record)
	})
	if err != nil {
		return runtime.Image{}, false, &Error{"ErrImagePull", err.Error()}
	}
	return image, !must, nil
}

// pull pulls the image, unless the last pull failed shortly before.
func (p *Puller) pull(ctx context.Context, r *request) (runtime.Image, error) {
	key := pullKey{r.pod.UID, r.image}
	p.mu.Lock()
	last := p.backoff[key]
	p.mu.Unlock()
	began := p.Clock.Now()
	if last.Remaining(last.Used, began, p.Limits) > 0 {
		message := fmt.Sprintf("Back-off pulling image %q", r.image)
		r.record(v1.EventTypeNormal, "BackOff", "%s", message)
		return runtime.Image{}, &Error{"ImagePullBackOff", message + ": " + last.message}
	}
	credentials, err := p.Credentials.lookup(ctx, r.pod, r.repository, r.record)
	if err != nil {
		return runtime.Image{}, &Error{"ErrImagePull", err.Error()}
	}
	r.record(v1.EventTypeNormal, "Pulling", "Pulling image %q", r.image)
	done, err := p.enter(ctx)
	if err != nil {
		return runtime.Image{}, &Error{"ErrImagePull", fmt.Sprintf("failed to pull image %q: %v", r.image, err)}
	}
	turn := p.Clock.Now()
	image, err := p.fetch(ctx, r, credentials)
	took := p.Clock.Since(turn)
	done()
	if err != nil {
		message := fmt.Sprintf("failed to pull image %q: %v", r.image, err)
		if ctx.Err() != nil { // the pod was deleted meanwhile: no failure of the image
			return runtime.Image{}, &Error{"ErrImagePull", message}
		}
		p.mu.Lock()
		if p.backoff == nil {
			p.backoff = map[pullKey]failure{}
		}
		p.backoff[key] = failure{last.Next(began, p.Clock.Now(), p.Limits), "ErrImagePull: " + message}
		p.mu.Unlock()
		r.record(v1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", r.image, err)
		r.record(v1.EventTypeWarning, "Failed", "Error: %s", "ErrImagePull")
		return runtime.Image{}, &Error{"ErrImagePull", message}
	}
	p.mu.Lock()
	delete(p.backoff, key)
	p.mu.Unlock()
	if p.Pulled != nil {
		p.Pulled(key.pod, image.SizeBytes, took)
	}
	r.record(v1.EventTypeNormal, "Pulled",
		"Successfully pulled image %q in %v (%v including waiting). Image size: %v bytes.", r.image,
		took.Truncate(time.Millisecond), p.Clock.Since(began).Truncate(time.Millisecond), image.SizeBytes)
	return image, nil
}

// fetch tries one credential after the other, or none if the pod has none for the image.
func (p *Puller) fetch(ctx context.Context, r *request, credentials []keyring.Entry) (runtime.Image, error) {
	if p.Records != nil {
		if err := p.Records.Begin(r.image); err != nil {
			return runtime.Image{}, fmt.Errorf("failed to record image pull intent: %w", err)
		}
	}
	image, with, err := p.try(ctx, r.image, credentials)
	switch {
	case p.Records == nil:
	case err != nil:
		p.Records.Failed(ctx, r.image)
	default:
		p.Records.Pulled(ctx, r.image, image.ID, with)
	}
	return image, err
}

// try returns the credential that the image was pulled with, nil for none.
func (p *Puller) try(ctx context.Context, ref string,
	credentials []keyring.Entry) (image runtime.Image, with *keyring.Entry, err error) {
	if p.Rate != nil && !p.Rate.TryAccept() {
		return runtime.Image{}, nil, errors.New("pull QPS exceeded")
	}
	if len(credentials) == 0 {
		image, err = p.Images.Pull(ctx, ref, runtime.Credential{})
		return image, nil, err
	}
	var failures []error
	for i := range credentials {
		image, err = p.Images.Pull(ctx, ref, credentials[i].Credential)
		if err == nil {
			return image, &credentials[i], nil
		}
		failures = append(failures, err)
	}
	return runtime.Image{}, nil, utilerrors.NewAggregate(failures)
}

// enter waits until another image may be pulled; done tells that it was.
func (p *Puller) enter(ctx context.Context) (done func(), err error) {
	if p.Parallel <= 0 {
		return func() {}, nil
	}
	p.mu.Lock()
	if p.pulling == nil {
		p.pulling = make(chan struct{}, p.Parallel)
	}
	pulling := p.pulling
	p.mu.Unlock()
	select {
	case pulling <- struct{}{}: // in the order of coming
		return func() { <-pulling }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// RetryAt is when a pull that failed may be tried again, the zero time if none failed.
func (p *Puller) RetryAt(uid types.UID, image string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, ok := p.backoff[pullKey{uid, image}]
	if !ok {
		return time.Time{}
	}
	return f.Used.Add(f.Delay)
}

// Forget drops what is remembered of a pod.
func (p *Puller) Forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.backoff {
		if key.pod == uid {
			delete(p.backoff, key)
		}
	}
}

// Policy is a container's pull policy; unset, it depends on the tag.
func Policy(c *v1.Container) v1.PullPolicy {
	if c.ImagePullPolicy != "" {
		return c.ImagePullPolicy
	}
	named, err := reference.ParseNormalizedNamed(c.Image)
	if err != nil {
		return v1.PullIfNotPresent
	}
	if tagged, ok := reference.TagNameOnly(named).(reference.Tagged); ok && tagged.Tag() == "latest" {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}
