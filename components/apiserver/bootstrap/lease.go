package bootstrap

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/internal/follow"
)

const (
	// leaseDuration is how long a server that no longer renews counts as one of the cluster's.
	leaseDuration = time.Hour
	renewEvery    = 10 * time.Second
	// mendEvery is the interval at which deleted system namespaces are recreated, and the flow control objects are
	// restored.
	mendEvery = time.Minute
	// leaveTimeout is for how long a server that ends tries to take back each thing that tells of it.
	leaveTimeout = 10 * time.Second

	identityLabel = "apiserver.kubernetes.io/identity"
	hostLabel     = "kubernetes.io/hostname"
	identity      = "kube-apiserver"
)

var leases = coordinationv1.Resource("leases")

// LeaseName is the name of the Lease that tells of a server. It is the same after each restart (KEP-1965): a sum over
// the host and the program, each after its length in two bytes.
func LeaseName(host string) string {
	var named []byte
	for _, part := range []string{host, identity} {
		named = append(binary.BigEndian.AppendUint16(named, uint16(len(part))), part...)
	}
	sum := sha256.Sum256(named)
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// IsServer reports whether a Lease of the system's namespace tells of an API server.
func IsServer(lease metav1.Object) bool { return lease.GetLabels()[identityLabel] == identity }

// holder is the holder of this server's Lease: this run of it.
func (b *Bootstrap) holder() string { return LeaseName(b.cfg.Identity) + "_" + b.life }

// beginLease recreates the Lease of this server: that of a former run must not be taken for this one's.
func (b *Bootstrap) beginLease(ctx context.Context) error {
	if b.cfg.NoLease {
		return nil
	}
	if err := b.deleteLease(ctx, func(*coordinationv1.Lease) bool { return true }); err != nil {
		return err
	}
	_, err := b.cfg.Objects.Create(ctx, leases, b.lease())
	if apierrors.IsAlreadyExists(err) {
		return b.renewLease(ctx)
	}
	return err
}

// endLease deletes the Lease of this server, unless another run of it holds it already.
func (b *Bootstrap) endLease(ctx context.Context) error {
	if b.cfg.NoLease {
		return nil
	}
	return b.deleteLease(ctx,
		func(l *coordinationv1.Lease) bool { return ptr.Deref(l.Spec.HolderIdentity, "") == b.holder() })
}

// deleteLease deletes such a Lease of this host. Another one may come meanwhile, which stays.
func (b *Bootstrap) deleteLease(ctx context.Context, such func(*coordinationv1.Lease) bool) error {
	name := LeaseName(b.cfg.Identity)
	found, err := objects.As[*coordinationv1.Lease](b.cfg.Objects.Get(ctx, leases, metav1.NamespaceSystem, name))
	if err == nil && such(found) {
		err = b.cfg.Objects.Delete(ctx, leases, metav1.NamespaceSystem, name, found.UID)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// lease says that this server is alive now.
func (b *Bootstrap) lease() *coordinationv1.Lease {
	now := metav1.NewMicroTime(b.cfg.Clock.Now())
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem,
			Name:      LeaseName(b.cfg.Identity),
			Labels:    map[string]string{identityLabel: identity, hostLabel: b.cfg.Identity},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       ptr.To(b.holder()),
			LeaseDurationSeconds: ptr.To(int32(leaseDuration / time.Second)),
			RenewTime:            &now,
		},
	}
	if b.cfg.PeerAddress != "" {
		lease.Annotations = map[string]string{corev1.AnnotationPeerAdvertiseAddress: b.cfg.PeerAddress}
	}
	return lease
}

func (b *Bootstrap) renewLease(ctx context.Context) error {
	if b.cfg.NoLease {
		return nil
	}
	lease := b.lease()
	return b.write(ctx, leases, lease, func(obj api.Object) bool {
		current := obj.(*coordinationv1.Lease)
		setLabels(current, lease.Labels)
		for key, value := range lease.Annotations {
			metav1.SetMetaDataAnnotation(&current.ObjectMeta, key, value)
		}
		current.Spec.RenewTime = lease.Spec.RenewTime
		current.Spec.HolderIdentity, current.Spec.LeaseDurationSeconds = lease.Spec.HolderIdentity,
			lease.Spec.LeaseDurationSeconds
		return true
	})
}

// forgetServers deletes the leases of servers that are long gone.
func (b *Bootstrap) forgetServers(ctx context.Context) error {
	if b.cfg.NoLease {
		return nil
	}
	list, err := objects.ListAs[*coordinationv1.Lease](b.cfg.Objects.List(ctx, leases, metav1.NamespaceSystem))
	if err != nil {
		return err
	}
	var errs []error
	for _, lease := range list {
		if !IsServer(lease) || !b.ended(lease) {
			continue
		}
		// A server that comes back just now has renewed it, which a cache may not know yet.
		fresh, err := objects.As[*coordinationv1.Lease](b.cfg.Objects.Live(ctx, leases, lease.Namespace, lease.Name))
		if err == nil && b.ended(fresh) {
			err = b.cfg.Objects.Delete(ctx, leases, lease.Namespace, lease.Name, fresh.UID)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (b *Bootstrap) ended(lease *coordinationv1.Lease) bool {
	if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return true
	}
	life := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	return lease.Spec.RenewTime.Add(life).Before(b.cfg.Clock.Now())
}

// Run puts this server, which is ready, among the endpoints of the Service "kubernetes". It keeps these, this server's
// lease, the system namespaces and the other objects that must not be changed up to date until ctx ends, and then
// removes the server's address and lease. Faults of the configured ranges of cluster IPs are reported as events.
func (b *Bootstrap) Run(ctx context.Context, events record.EventRecorder) error {
	b.events, b.running = events, true
	b.keep(ctx, step{"endpoints", b.ensureEndpoints}, step{"service CIDR", b.ensureServiceCIDR})
	ticker := b.cfg.Clock.NewTicker(renewEvery)
	defer ticker.Stop()
	often := b.cfg.Clock.NewTicker(follow.Every)
	defer often.Stop()
	rare := b.cfg.Clock.NewTicker(mendEvery)
	defer rare.Stop()
	var said string // of what is tried so often that it is told of once
	for {
		select {
		case <-ctx.Done():
			b.leave(context.WithoutCancel(ctx))
			return nil
		case <-ticker.C():
			b.keep(ctx, step{"lease", b.renewLease}, step{"service CIDR", b.ensureServiceCIDR},
				step{"service", b.ensureService},
				step{"endpoints", b.keepEndpoints})
		case <-often.C(): // as the files do of which it tells
			err := takeAll(ctx, []step{
				{"authentication of extension servers", b.ensureAuthenticationConfig},
				{"tracking of legacy service account tokens", b.ensureTokenTracking},
			})
			switch {
			case err == nil:
				said = ""
			case ctx.Err() == nil && err.Error() != said:
				klog.FromContext(ctx).Error(err,
					"Could not keep what tells others of tokens and certificates; trying again")
				said = err.Error()
			}
		case <-rare.C():
			b.keep(ctx, step{"system namespaces", b.keepNamespaces},
				step{"flow schemas and priority levels", b.keepFairness},
				step{"leases of servers that are gone", b.forgetServers})
		}
	}
}

// keep takes steps, and says which of them failed.
func (b *Bootstrap) keep(ctx context.Context, steps ...step) {
	for _, s := range steps {
		if err := s.run(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to maintain bootstrap objects; retrying",
				"what", s.name)
		}
	}
}

// takeAll takes steps, whichever of them fails.
func takeAll(ctx context.Context, steps []step) error {
	var errs []error
	for _, s := range steps {
		if err := s.run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}

// leave takes back what others know this server by, all at once: a store that doesn't answer holds up the end of the
// server only for leaveTimeout.
func (b *Bootstrap) leave(ctx context.Context) {
	var leaving sync.WaitGroup
	for _, s := range []step{{"endpoints", b.leaveEndpoints}, {"lease", b.endLease}} {
		leaving.Go(func() {
			within, cancel := context.WithTimeout(ctx, leaveTimeout)
			defer cancel()
			if err := s.run(within); err != nil {
				klog.FromContext(ctx).Error(err, "Failed to remove server lease and endpoints", "what", s.name)
			}
		})
	}
	leaving.Wait()
}

// others takes this server out of those that are alive, and returns the rest.
func (b *Bootstrap) others(ctx context.Context) ([]net.IP, error) {
	if b.cfg.Masters == nil {
		return b.uncounted(ctx)
	}
	if err := b.cfg.Masters.remove(ctx, b.cfg.AdvertiseAddress); err != nil {
		return nil, err
	}
	return b.cfg.Masters.list(ctx)
}
