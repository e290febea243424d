// Package images brings the images of containers onto the node, as their pull policy says.
package images

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
)

// Error is a failure as a container status reports it: ErrImagePull, ImagePullBackOff, ErrImageNeverPull or
// InvalidImageName.
type Error struct{ Reason, Message string }

func (e *Error) Error() string { return e.Message }

// Secrets gives the pull secrets of pods.
type Secrets interface {
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// Puller pulls images, with a back-off per pod and image. It is safe for concurrent use.
type Puller struct {
	Images  runtime.Images
	Secrets Secrets
	Clock   clock.PassiveClock
	Limits  plan.Limits
	// Serialize pulls one image at a time.
	Serialize bool

	mu      sync.Mutex
	backoff map[pullKey]failure
	pulling chan struct{} // holds a value while an image is pulled, where only one may be
}

type pullKey struct {
	pod   types.UID
	image string
}

type failure struct {
	plan.Backoff
	message string
}

// Record tells of what happens, as events on the pod.
type Record func(eventType, reason, format string, args ...any)

// Ensure makes sure that a container's image is on the node. Errors are of type *Error.
func (p *Puller) Ensure(ctx context.Context, pod *v1.Pod, c *v1.Container, record Record) (runtime.Image, error) {
	if _, err := reference.ParseAnyReference(c.Image); err != nil {
		record(v1.EventTypeWarning, "InspectFailed", "Failed to apply default image tag %q: %v", c.Image, err)
		return runtime.Image{}, &Error{"InvalidImageName", fmt.Sprintf("Failed to apply default image tag %q: %v", c.Image, err)}
	}
	policy := Policy(c)
	if policy != v1.PullAlways {
		image, err := p.Images.Image(ctx, c.Image)
		if err == nil {
			record(v1.EventTypeNormal, "Pulled", "Container image %q already present on machine and can be accessed by the pod", c.Image)
			return image, nil
		}
		if !errors.Is(err, runtime.ErrNotFound) {
			record(v1.EventTypeWarning, "InspectFailed", "Failed to inspect image %q: %v", c.Image, err)
			return runtime.Image{}, &Error{"ImageInspectError", fmt.Sprintf("Failed to inspect image %q: %v", c.Image, err)}
		}
		if policy == v1.PullNever {
			message := fmt.Sprintf("Container image %q is not present with pull policy of Never", c.Image)
			record(v1.EventTypeWarning, "ErrImageNeverPull", "%s", message)
			return runtime.Image{}, &Error{"ErrImageNeverPull", message}
		}
	}
	return p.pull(ctx, pod, c, record)
}

func (p *Puller) pull(ctx context.Context, pod *v1.Pod, c *v1.Container, record Record) (runtime.Image, error) {
	key := pullKey{pod.UID, c.Image}
	p.mu.Lock()
	last := p.backoff[key]
	p.mu.Unlock()
	now := p.Clock.Now()
	if last.Remaining(last.Used, now, p.Limits) > 0 {
		message := fmt.Sprintf("Back-off pulling image %q", c.Image)
		record(v1.EventTypeNormal, "BackOff", "%s", message)
		return runtime.Image{}, &Error{"ImagePullBackOff", message + ": " + last.message}
	}
	record(v1.EventTypeNormal, "Pulling", "Pulling image %q", c.Image)
	if p.Serialize {
		turn := p.turn()
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return runtime.Image{}, &Error{"ErrImagePull", fmt.Sprintf("failed to pull image %q: %v", c.Image, ctx.Err())}
		}
	}
	began := p.Clock.Now()
	image, err := p.Images.Pull(ctx, c.Image, p.credentials(ctx, pod, c.Image))
	if err != nil {
		message := fmt.Sprintf("failed to pull image %q: %v", c.Image, err)
		if ctx.Err() != nil { // the pod was deleted meanwhile: no failure of the image
			return runtime.Image{}, &Error{"ErrImagePull", message}
		}
		p.mu.Lock()
		if p.backoff == nil {
			p.backoff = map[pullKey]failure{}
		}
		p.backoff[key] = failure{last.Next(now, p.Clock.Now(), p.Limits), "ErrImagePull: " + message}
		p.mu.Unlock()
		record(v1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", c.Image, err)
		record(v1.EventTypeWarning, "Failed", "Error: %s", "ErrImagePull")
		return runtime.Image{}, &Error{"ErrImagePull", message}
	}
	p.mu.Lock()
	delete(p.backoff, key)
	p.mu.Unlock()
	record(v1.EventTypeNormal, "Pulled", "Successfully pulled image %q in %v (%v including waiting). Image size: %v bytes.",
		c.Image, p.Clock.Since(began).Truncate(time.Millisecond), p.Clock.Since(now).Truncate(time.Millisecond), image.SizeBytes)
	return image, nil
}

// turn is the place of the one pull that may be under way.
func (p *Puller) turn() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pulling == nil {
		p.pulling = make(chan struct{}, 1)
	}
	return p.pulling
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

// credentials reads the pod's pull secrets that fit the image's registry. A secret that is missing or malformed
// is passed over, as others may do.
func (p *Puller) credentials(ctx context.Context, pod *v1.Pod, image string) []runtime.Credential {
	var found []runtime.Credential
	if p.Secrets == nil {
		return nil
	}
	for _, ref := range pod.Spec.ImagePullSecrets {
		secret, err := p.Secrets.Secret(ctx, pod.Namespace, ref.Name)
		if err != nil {
			continue
		}
		found = append(found, match(secret, image)...)
	}
	return found
}

type authEntry struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

func match(secret *v1.Secret, image string) []runtime.Credential {
	entries := map[string]authEntry{}
	if data, ok := secret.Data[v1.DockerConfigJsonKey]; ok {
		var config struct {
			Auths map[string]authEntry `json:"auths"`
		}
		if json.Unmarshal(data, &config) != nil {
			return nil
		}
		entries = config.Auths
	} else if data, ok := secret.Data[v1.DockerConfigKey]; ok && json.Unmarshal(data, &entries) != nil {
		return nil
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return nil
	}
	var found []runtime.Credential
	for address, entry := range entries {
		if covers(address, named) {
			found = append(found, credential(address, entry))
		}
	}
	return found
}

// covers tells whether credentials for address ("https://registry/v1/", "registry/path") are for an image.
func covers(address string, image reference.Named) bool {
	address = strings.TrimPrefix(strings.TrimPrefix(address, "https://"), "http://")
	for _, suffix := range []string{"/v1/", "/v2/", "/v1", "/v2", "/"} {
		address = strings.TrimSuffix(address, suffix)
	}
	host, path, _ := strings.Cut(address, "/")
	if host == "index.docker.io" {
		host = "docker.io"
	}
	if host != reference.Domain(image) {
		return false
	}
	return path == "" || reference.Path(image) == path || strings.HasPrefix(reference.Path(image), path+"/")
}

func credential(address string, entry authEntry) runtime.Credential {
	c := runtime.Credential{
		ServerAddress: address, Username: entry.Username, Password: entry.Password,
		IdentityToken: entry.IdentityToken, RegistryToken: entry.RegistryToken,
	}
	if entry.Auth != "" && c.Username == "" {
		if decoded, err := base64.StdEncoding.DecodeString(entry.Auth); err == nil {
			c.Username, c.Password, _ = strings.Cut(string(decoded), ":")
		}
	}
	return c
}
