// Package bootstrap makes the objects that a cluster has from its first moment: system namespaces, default roles,
// priority classes, the Service "kubernetes", and what extension servers need to know. It writes only what differs.
package bootstrap

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/authn"
	"quintet.dev/quintet/components/apiserver/bootstrap/policy"
	"quintet.dev/quintet/components/apiserver/objects"
)

// Config describes the server that bootstraps.
type Config struct {
	Objects objects.Store
	// Features add roles.
	Features policy.Features
	// NoLease leaves out the leases by which servers know of each other.
	NoLease bool
	// Identity tells API servers of one cluster apart; the host's name is usual.
	Identity string
	// AdvertiseAddress and SecurePort are where clients in the cluster reach this server; without an address they
	// can't.
	AdvertiseAddress net.IP
	SecurePort       int
	// PeerAddress, host:port, is where other API servers reach this one; "" isn't told.
	PeerAddress string
	// Masters tell which servers are alive. Without, there are Servers of them, which register themselves; with
	// neither, the endpoints of the Service "kubernetes" are not managed.
	Masters *Masters
	Servers int
	// NodePort makes the Service "kubernetes" one of that type; 0 leaves it ClusterIP.
	NodePort int
	// ServiceIP is the cluster IP of the Service "kubernetes"; nil leaves the Service out.
	ServiceIP net.IP
	// ServiceCIDRs are the ranges of cluster IPs that this server starts with.
	ServiceCIDRs []netip.Prefix
	// ClientCA and RequestHeaderCA return the PEM bundles now in use, or nil.
	ClientCA, RequestHeaderCA func() []byte
	RequestHeader             authn.RequestHeader
	// NoUIDHeaders leaves extension servers untold of the headers with UIDs, those of other API servers among them.
	NoUIDHeaders bool
	// NoRoles leaves out the default roles, which have no effect without RBAC.
	NoRoles bool
	// Writers is how many objects are written at a time; 0 is one.
	Writers int
	Clock   clock.WithTicker
}

// Bootstrap writes and keeps the first objects.
type Bootstrap struct {
	cfg    Config
	writer *objectWriter

	lease          serverLease
	endpoints      serviceEndpoints
	serviceCIDR    defaultServiceCIDR
	authentication authenticationConfig
	tracking       tokenTracking
}

// New returns a Bootstrap.
func New(cfg Config) *Bootstrap {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	for _, ca := range []*func() []byte{&cfg.ClientCA, &cfg.RequestHeaderCA} {
		if *ca == nil {
			*ca = func() []byte { return nil }
		}
	}
	w := &objectWriter{objects: cfg.Objects}
	b := &Bootstrap{
		cfg: cfg, writer: w,
		lease:       serverLease{writer: w, clock: cfg.Clock, host: cfg.Identity, peerAddress: cfg.PeerAddress},
		serviceCIDR: defaultServiceCIDR{writer: w, clock: cfg.Clock, ranges: cfg.ServiceCIDRs},
		authentication: authenticationConfig{writer: w, clock: cfg.Clock, clientCA: cfg.ClientCA,
			requestHeaderCA: cfg.RequestHeaderCA, requestHeader: &cfg.RequestHeader, noUIDHeaders: cfg.NoUIDHeaders},
		tracking: tokenTracking{writer: w, clock: cfg.Clock},
	}
	if !cfg.NoLease {
		b.lease.holder = LeaseName(cfg.Identity) + "_" + uuid.NewString()
	}
	if b.endpoints = (serviceEndpoints{writer: w}); cfg.ServiceIP != nil {
		b.endpoints = serviceEndpoints{writer: w, address: cfg.AdvertiseAddress, port: cfg.SecurePort,
			masters: cfg.Masters, servers: cfg.Servers}
	}
	return b
}

// Ensure creates what is missing and repairs what differs. It returns when everything is in place that a server needs;
// it retries for that for a while.
func (b *Bootstrap) Ensure(ctx context.Context) error {
	if err := b.retryMigrateRoles(ctx); err != nil {
		return err
	}
	return b.take(ctx, slices.Concat(b.commonSteps(), b.ownSteps()))
}

// EnsureShared is the part of Ensure that writes what is the same for all servers of a cluster, and EnsureServer the
// part that tells of this one. They may be called at once.
func (b *Bootstrap) EnsureShared(ctx context.Context) error {
	if err := b.retryMigrateRoles(ctx); err != nil {
		return err
	}
	return b.take(ctx, b.commonSteps())
}

// EnsureServer is described with EnsureShared.
func (b *Bootstrap) EnsureServer(ctx context.Context) error { return b.take(ctx, b.ownSteps()) }

// retryMigrateRoles does what all that is common waits for.
func (b *Bootstrap) retryMigrateRoles(ctx context.Context) error {
	return b.take(ctx, b.retryUntil(retryTimeout, step{"out of what former releases left", b.migrateRoles}))
}

// take takes steps, some at a time, until one fails.
func (b *Bootstrap) take(ctx context.Context, steps []step) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	// Few goroutines do many steps each: the stack that a write takes grows once in each of them.
	workqueue.ParallelizeUntil(ctx, max(b.cfg.Writers, 1), len(steps), func(i int) {
		if err := steps[i].run(ctx); err != nil {
			end(fmt.Errorf("bootstrap %s: %w", steps[i].name, err))
		}
	})
	return context.Cause(ctx)
}

// Resources are those of which Ensure writes several objects, and APIServices, of which as many are written then.
func Resources() []schema.GroupResource {
	return []schema.GroupResource{
		corev1.Resource("namespaces"),
		rbacv1.Resource("clusterroles"),
		rbacv1.Resource("clusterrolebindings"),
		rbacv1.Resource("roles"),
		rbacv1.Resource("rolebindings"),
		flowcontrolv1.Resource("flowschemas"),
		flowcontrolv1.Resource("prioritylevelconfigurations"),
		apiregistrationv1.SchemeGroupVersion.WithResource("apiservices").GroupResource(),
	}
}

type step struct {
	name string
	run  func(ctx context.Context) error
}

// commonSteps write what is the same whichever server does.
func (b *Bootstrap) commonSteps() []step {
	var classes []step
	for _, class := range priorityClasses() {
		classes = append(classes, step{"priority class " + class.Name, func(ctx context.Context) error {
			return b.writer.createMissing(ctx, schedulingv1.Resource("priorityclasses"), class)
		}})
	}
	return slices.Concat(
		bestEffort(b.namespaceSteps()...),
		b.retryUntil(retryTimeout, classes...),
		b.retryUntil(retryTimeout, b.policySteps()...),
		b.retryUntil(fairnessTimeout, b.fairnessSteps()...),
	)
}

// ownSteps write what tells of this server, of its ranges and authorities.
func (b *Bootstrap) ownSteps() []step {
	return bestEffort(
		step{"lease of this server", b.lease.begin},
		step{"service CIDR kubernetes", b.serviceCIDR.create},
		step{"service kubernetes", b.ensureService},
		step{"endpoints of service kubernetes", b.endpoints.removeStale},
		step{"authentication of extension servers", b.authentication.ensure},
		step{"tracking of legacy service account tokens", b.tracking.ensure},
	)
}

// priorityClasses are the system's. One that is there stays as it is.
func priorityClasses() []*schedulingv1.PriorityClass {
	class := func(name string, value int32, description string) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{
			ObjectMeta:       metav1.ObjectMeta{Name: name},
			Value:            value,
			Description:      description,
			PreemptionPolicy: ptr.To(corev1.PreemptLowerPriority),
		}
	}
	const system = 2_000_000_000
	return []*schedulingv1.PriorityClass{
		class("system-node-critical", system+1000,
			"Used for system critical pods that must not be moved from their current node."),
		class("system-cluster-critical", system,
			"Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."),
	}
}
