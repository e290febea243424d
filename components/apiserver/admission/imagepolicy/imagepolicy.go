// Package imagepolicy asks a remote service whether the images of pods may be run
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#imagepolicywebhook).
package imagepolicy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/api/imagepolicy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/admission/pluginconfig"
)

// Name is the plug-in's.
const Name = "ImagePolicyWebhook"

// Prefix of the annotations of audit events, and what of a pod's annotations is for such services.
const (
	auditPrefix = "imagepolicywebhook.image-policy.k8s.io/"
	forPolicy   = ".image-policy.k8s.io/"
	failedOpen  = "failed-open"
	// failedOpenPod is the annotation of pods that were admitted because the webhook could not be reached.
	failedOpenPod = "alpha.image-policy.k8s.io/failed-open"
)

// remembered is the number of answers that are kept.
const remembered = 1024

// Config is the plug-in's: which service is asked, by a kubeconfig, and how long its answers hold. AllowTTL and DenyTTL
// are seconds, RetryBackoff milliseconds; 0 means the default, -1 none.
type Config struct {
	KubeConfigFile string        `json:"kubeConfigFile"`
	AllowTTL       time.Duration `json:"allowTTL"`
	DenyTTL        time.Duration `json:"denyTTL"`
	RetryBackoff   time.Duration `json:"retryBackoff"`
	DefaultAllow   bool          `json:"defaultAllow"` // when the webhook can't be reached
}

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	config  Config
	remote  *webhook.GenericWebhook
	answers *cache.LRUExpireCache
}

var _ admission.ValidationInterface = &Plugin{}

// New returns the plug-in with its configuration, which it needs.
func New(file []byte) (*Plugin, error) {
	if len(file) == 0 {
		return nil, errors.New("no config specified")
	}
	var config struct {
		ImagePolicy Config `json:"imagePolicy"`
	}
	if err := pluginconfig.DecodeUnversioned(file, &config); err != nil {
		return nil, err
	}
	c := config.ImagePolicy
	if err := errors.Join(
		within(&c.RetryBackoff, time.Millisecond, 1, 5*time.Minute, 500*time.Millisecond),
		within(&c.AllowTTL, time.Second, time.Second, 30*time.Minute, 5*time.Minute),
		within(&c.DenyTTL, time.Second, time.Second, 30*time.Minute, 30*time.Second),
	); err != nil {
		return nil, err
	}
	client, err := webhook.LoadKubeconfig(c.KubeConfigFile, nil)
	if err != nil {
		return nil, fmt.Errorf("kubeConfigFile %s: %w", c.KubeConfigFile, err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	remote, err := webhook.NewGenericWebhook(scheme, serializer.NewCodecFactory(scheme), client,
		[]schema.GroupVersion{v1alpha1.SchemeGroupVersion}, webhook.DefaultRetryBackoffWithInitialDelay(c.RetryBackoff))
	if err != nil {
		return nil, err
	}
	return &Plugin{
		Handler: admission.NewHandler(admission.Create, admission.Update), config: c, remote: remote,
		answers: cache.NewLRUExpireCache(remembered),
	}, nil
}

// within brings a number of units into the form of a duration: 0 is the default, -1 nothing.
func within(d *time.Duration, unit, low, high, byDefault time.Duration) error {
	switch *d {
	case -1:
		*d = 0
		return nil
	case 0:
		*d = byDefault
		return nil
	}
	*d *= unit
	if *d < low || *d > high {
		return fmt.Errorf("valid value is between %v and %v, got %v", low, high, *d)
	}
	return nil
}

// Validate asks about all images of a pod at once.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	sub := a.GetSubresource()
	if a.GetResource().GroupResource() != corev1.Resource("pods") || sub != "" && sub != "ephemeralcontainers" {
		return nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return apierrors.NewBadRequest("Resource was marked with kind Pod but was unable to be converted")
	}
	review := &v1alpha1.ImageReview{
		Spec: v1alpha1.ImageReviewSpec{Namespace: a.GetNamespace(), Annotations: map[string]string{}}}
	add := func(image string) {
		review.Spec.Containers = append(review.Spec.Containers, v1alpha1.ImageReviewContainerSpec{Image: image})
	}
	if sub == "" {
		for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i := range list {
				add(list[i].Image)
			}
		}
	} else {
		for i := range pod.Spec.EphemeralContainers {
			add(pod.Spec.EphemeralContainers[i].Image)
		}
	}
	for k, v := range pod.Annotations {
		if strings.Contains(k, forPolicy) {
			review.Spec.Annotations[k] = v
		}
	}
	if err := p.review(ctx, pod, a, review); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

func (p *Plugin) review(ctx context.Context, pod *corev1.Pod, a admission.Attributes,
	review *v1alpha1.ImageReview) error {
	key, err := json.Marshal(review.Spec)
	if err != nil {
		return err
	}
	if known, ok := p.answers.Get(string(key)); ok {
		review.Status = known.(v1alpha1.ImageReviewStatus)
	} else {
		if err := p.ask(ctx, review); err != nil {
			return p.unanswered(ctx, pod, a, err)
		}
		ttl := p.config.DenyTTL
		if review.Status.Allowed {
			ttl = p.config.AllowTTL
		}
		p.answers.Add(string(key), review.Status, ttl)
	}
	for k, v := range review.Status.AuditAnnotations {
		if err := a.AddAnnotation(auditPrefix+k, v); err != nil {
			klog.FromContext(ctx).Error(err, "Failed to set audit annotation", "key", auditPrefix+k)
		}
	}
	switch {
	case review.Status.Allowed:
		return nil
	case review.Status.Reason != "":
		return fmt.Errorf("image policy webhook backend denied one or more images: %s", review.Status.Reason)
	}
	return errors.New("one or more images rejected by webhook backend")
}

func (p *Plugin) ask(ctx context.Context, review *v1alpha1.ImageReview) error {
	result := p.remote.WithExponentialBackoff(ctx,
		func() rest.Result { return p.remote.RestClient.Post().Body(review).Do(ctx) })
	if err := result.Error(); err != nil {
		return err
	}
	code := 0
	if result.StatusCode(&code); code < 200 || code >= 300 {
		//lint:ignore ST1005 clients see it, with upstream's capital
		return fmt.Errorf("Error contacting webhook: %d", code)
	}
	return result.Into(review)
}

// unanswered decides when the service couldn't be asked.
func (p *Plugin) unanswered(ctx context.Context, pod *corev1.Pod, a admission.Attributes, err error) error {
	klog.FromContext(ctx).V(2).Info("Failed to call image policy webhook", "err", err, "allowed",
		p.config.DefaultAllow)
	if !p.config.DefaultAllow {
		return admission.NewForbidden(a, err)
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[failedOpenPod] = "true"
	return a.AddAnnotation(auditPrefix+failedOpen, "true")
}
