package api

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/clock"
)

// Deps are what rows need from the rest of the server. Every field may be nil; what it serves is then left out
// (services get no addresses) or answered with 503 (reviews and bindings).
type Deps struct {
	// Clock stamps conditions; the real one if nil.
	Clock clock.PassiveClock

	// Services allocates cluster IPs and node ports.
	Services ServiceAllocator

	// AllowPrivileged lets containers ask for privileged mode.
	AllowPrivileged bool

	// ScaleToZero lets autoscalers have 0 minReplicas.
	ScaleToZero bool

	// Pods are the features of pods that are on although they are off by default.
	Pods PodFeatures

	// NominateBound lets pods that have a node be nominated for others.
	NominateBound bool

	// StrictServiceNames has names of new Services, and of those that Ingresses send to, begin with a letter.
	StrictServiceNames bool
	// OpenCIDRStatus lets a user that may write a ServiceCIDR write its status with it.
	OpenCIDRStatus bool

	// NamespaceLabels returns the labels of a namespace; where it is nil, nothing is refused for what they lack.
	NamespaceLabels func(ctx context.Context, name string) (map[string]string, error)
	// Authorize returns the API's error for what a request may not do besides what it is; nil allows everything.
	Authorize func(ctx context.Context, a authorizer.AttributesRecord) error

	// Issued is called for certificates whose request set a duration, and reports whether it was honored; nil reports
	// nothing.
	Issued func(signer string, honored bool)

	// Stored returns an object as the caches have it, and Resolve the resource of a kind that is served.
	Stored  func(ctx context.Context, resource schema.GroupResource, namespace, name string) (Object, error)
	Resolve func(schema.GroupVersionKind) (schema.GroupVersionResource, error)

	// Bind answers a POST to bindings; the object returned is ignored.
	Bind func(ctx context.Context, b *corev1.Binding, asked CreateRequest) (*corev1.Binding, error)

	// ComponentStatuses are the components of that name, or all for "", as they are now.
	ComponentStatuses func(ctx context.Context, name string) []*corev1.ComponentStatus

	// The reviews: each gets an object that it owns and returns it with its status filled in.
	TokenReview func(ctx context.Context, r *authenticationv1.TokenReview) (*authenticationv1.TokenReview,
		error)
	SelfSubjectReview func(ctx context.Context,
		r *authenticationv1.SelfSubjectReview) (*authenticationv1.SelfSubjectReview, error)
	SubjectAccessReview func(ctx context.Context,
		r *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error)
	LocalSubjectAccessReview func(ctx context.Context,
		r *authorizationv1.LocalSubjectAccessReview) (*authorizationv1.LocalSubjectAccessReview, error)
	SelfSubjectAccessReview func(ctx context.Context,
		r *authorizationv1.SelfSubjectAccessReview) (*authorizationv1.SelfSubjectAccessReview, error)
	SelfSubjectRulesReview func(ctx context.Context,
		r *authorizationv1.SelfSubjectRulesReview) (*authorizationv1.SelfSubjectRulesReview, error)
}

// PodFeatures are what pods, and templates of pods, may say only where the gate of it is on.
type PodFeatures struct {
	// StopSignals lets a container name the signal that stops it (KEP-4960).
	StopSignals bool
	// TrustBundles lets volumes project ClusterTrustBundles (KEP-3257).
	TrustBundles bool
	// Certificates lets volumes project certificates that the kubelet requests for the pod (KEP-4317).
	Certificates bool
}

func (d Deps) Now() time.Time {
	if d.Clock == nil {
		return clock.RealClock{}.Now()
	}
	return d.Clock.Now()
}

// ServiceAllocator gives services what must be unique in the cluster; see Strategy.Allocate for its life cycle.
type ServiceAllocator interface {
	// Allocate writes cluster IPs, node ports and health check port into new (nil on delete), and plans the release of
	// what old (nil on create) had and new has no more.
	Allocate(ctx context.Context, new, old *corev1.Service, dryRun bool) (done func(Outcome), err error)
	// Primary is the family that services have unless they ask for another.
	Primary() corev1.IPFamily
}
