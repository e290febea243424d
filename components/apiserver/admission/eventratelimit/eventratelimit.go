// Package eventratelimit refuses Events that come too fast
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#eventratelimit).
package eventratelimit

import (
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/lru"

	"quintet.dev/quintet/components/apiserver/admission/pluginconfig"
)

// Name is the plug-in's.
const Name = "EventRateLimit"

// Config is eventratelimit.admission.k8s.io/v1alpha1
// (https://kubernetes.io/docs/reference/config-api/apiserver-eventratelimit.v1alpha1/).
type Config struct {
	metav1.TypeMeta `json:",inline"`
	Limits          []Limit `json:"limits"`
}

// Limit bounds the events of each key: one bucket of tokens for each.
type Limit struct {
	Type      string `json:"type"`
	QPS       int32  `json:"qps"`
	Burst     int32  `json:"burst"`
	CacheSize int32  `json:"cacheSize,omitempty"` // keys that are remembered; 4096 if 0
}

// keys are what events are counted by, for each type of limit.
var keys = map[string]func(a admission.Attributes) string{
	"Server":          func(admission.Attributes) string { return "" },
	"Namespace":       func(a admission.Attributes) string { return a.GetNamespace() },
	"User":            userOf,
	"SourceAndObject": sourceAndObject,
}

const defaultCacheSize = 4096

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	limits []*limiter
}

var _ admission.ValidationInterface = &Plugin{}

// New returns the plug-in with its configuration, which it needs.
func New(file []byte, clock flowcontrol.Clock) (*Plugin, error) {
	var config Config
	if len(file) > 0 {
		if err := pluginconfig.Decode(file, "eventratelimit.admission.k8s.io", []string{"v1alpha1"},
			&config); err != nil {
			return nil, err
		}
	}
	if err := check(config.Limits).ToAggregate(); err != nil {
		return nil, err
	}
	p := &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update)}
	for _, l := range config.Limits {
		size := int(l.CacheSize)
		if size == 0 {
			size = defaultCacheSize
		}
		p.limits = append(p.limits, &limiter{limit: l, key: keys[l.Type], clock: clock, buckets: lru.New(size)})
	}
	return p, nil
}

func check(limits []Limit) (errs field.ErrorList) {
	path := field.NewPath("limits")
	if len(limits) == 0 {
		errs = append(errs, field.Invalid(path, limits, "must not be empty"))
	}
	for i, l := range limits {
		at := path.Index(i)
		if keys[l.Type] == nil {
			errs = append(errs, field.NotSupported(at.Child("type"), l.Type,
				[]string{"Namespace", "Server", "SourceAndObject", "User"}))
		}
		if l.Burst <= 0 {
			errs = append(errs, field.Invalid(at.Child("burst"), l.Burst, "must be positive"))
		}
		if l.QPS <= 0 {
			errs = append(errs, field.Invalid(at.Child("qps"), l.QPS, "must be positive"))
		}
		if l.Type != "Server" && l.CacheSize < 0 {
			errs = append(errs, field.Invalid(at.Child("cacheSize"), l.CacheSize, "must not be negative"))
		}
	}
	return errs
}

// Validate takes a token from each limit. Requests of the group events.k8s.io take none, though what they store is the
// same.
func (p *Plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetKind().GroupKind() != corev1.SchemeGroupVersion.WithKind("Event").GroupKind() || a.IsDryRun() {
		return nil
	}
	var errs []error
	for _, l := range p.limits {
		if err := l.take(a); err != nil {
			errs = append(errs, err)
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return apierrors.NewTooManyRequestsError(err.Error())
	}
	return nil
}

type limiter struct {
	limit Limit
	key   func(a admission.Attributes) string
	clock flowcontrol.Clock

	mu      sync.Mutex // so that a key has one bucket
	buckets *lru.Cache
}

func (l *limiter) take(a admission.Attributes) error {
	key := l.key(a)
	if !l.bucket(key).TryAccept() {
		return fmt.Errorf("limit reached on type %v for key %v", l.limit.Type, key)
	}
	return nil
}

func (l *limiter) bucket(key string) flowcontrol.RateLimiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found, ok := l.buckets.Get(key); ok {
		return found.(flowcontrol.RateLimiter)
	}
	made := flowcontrol.NewTokenBucketRateLimiterWithClock(float32(l.limit.QPS), int(l.limit.Burst), l.clock)
	l.buckets.Add(key, made)
	return made
}

func userOf(a admission.Attributes) string {
	if u := a.GetUserInfo(); u != nil {
		return u.GetName()
	}
	return ""
}

func sourceAndObject(a admission.Attributes) string {
	event, ok := a.GetObject().(*corev1.Event)
	if !ok {
		return ""
	}
	return strings.Join([]string{
		event.Source.Component, event.Source.Host,
		event.InvolvedObject.Kind, event.InvolvedObject.Namespace, event.InvolvedObject.Name,
		string(event.InvolvedObject.UID), event.InvolvedObject.APIVersion,
	}, "")
}
