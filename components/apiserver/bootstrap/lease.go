package bootstrap

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"net"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/objects"
)

const (
	// leaseDuration is how long a server that no longer renews counts as one of the cluster's.
	leaseDuration = time.Hour
	renewEvery    = 10 * time.Second
	// endpointLife is how long the address of a server that no longer renews stays among the endpoints.
	endpointLife = 3 * renewEvery
	// mendEvery is how soon the objects of priority and fairness are what they should be after somebody changed them.
	mendEvery = time.Minute

	identityLabel = "apiserver.kubernetes.io/identity"
	hostLabel     = "kubernetes.io/hostname"
	identity      = "kube-apiserver"
	// addressAnnotation tells the other servers where this one is.
	addressAnnotation = "quintet.dev/advertise-address"
)

var leases = coordinationv1.Resource("leases")

// leaseName is the same for a server after each restart (KEP-1965).
func leaseName(host string) string {
	sum := sha256.Sum256([]byte(host))
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// renewLease says that this server is alive.
func (b *Bootstrap) renewLease(ctx context.Context) error {
	now := metav1.NewMicroTime(b.cfg.Clock.Now())
	name := leaseName(b.cfg.Identity)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem,
			Name:      name,
			Labels:    map[string]string{identityLabel: identity, hostLabel: b.cfg.Identity},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       ptr.To(name),
			LeaseDurationSeconds: ptr.To(int32(leaseDuration / time.Second)),
			AcquireTime:          &now,
			RenewTime:            &now,
		},
	}
	if b.cfg.AdvertiseAddress != nil {
		lease.Annotations = map[string]string{addressAnnotation: b.cfg.AdvertiseAddress.String()}
	}
	return b.write(ctx, leases, lease, func(obj kinds.Object) bool {
		current := obj.(*coordinationv1.Lease)
		setLabels(current, lease.Labels)
		current.Annotations = lease.Annotations
		current.Spec.RenewTime = &now
		current.Spec.HolderIdentity, current.Spec.LeaseDurationSeconds = lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds
		return true
	})
}

// othersAddresses lists where the other servers are that renewed their lease lately.
func (b *Bootstrap) othersAddresses(ctx context.Context) ([]net.IP, error) {
	list, err := objects.ListAs[*coordinationv1.Lease](b.cfg.Objects.List(ctx, leases, metav1.NamespaceSystem))
	if err != nil {
		return nil, err
	}
	var addresses []net.IP
	for _, lease := range list {
		if lease.Labels[identityLabel] != identity || lease.Name == leaseName(b.cfg.Identity) || lease.Spec.RenewTime == nil ||
			b.cfg.Clock.Since(lease.Spec.RenewTime.Time) > endpointLife {
			continue
		}
		if ip := net.ParseIP(lease.Annotations[addressAnnotation]); ip != nil {
			addresses = append(addresses, ip)
		}
	}
	return addresses, nil
}

// Run keeps this server's lease, the endpoints of the Service "kubernetes" and the objects of priority and fairness until
// ctx ends, and then takes its own address out, unless it is the only one.
func (b *Bootstrap) Run(ctx context.Context) error {
	ticker := b.cfg.Clock.NewTicker(renewEvery)
	defer ticker.Stop()
	rare := b.cfg.Clock.NewTicker(mendEvery)
	defer rare.Stop()
	logger := klog.FromContext(ctx)
	for {
		select {
		case <-ctx.Done():
			leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			b.leave(leaving)
			return nil
		case <-ticker.C():
			for _, s := range []step{
				{"lease", b.renewLease}, {"service CIDR", b.ensureServiceCIDR}, {"service", b.ensureService}, {"endpoints", b.ensureEndpoints},
				{"authentication of extension servers", b.ensureAuthenticationConfig},
			} {
				if err := s.run(ctx); err != nil && ctx.Err() == nil {
					logger.Error(err, "Could not keep what tells others of this server; trying again", "what", s.name)
				}
			}
		case <-rare.C():
			if err := b.keepFairness(ctx); err != nil && ctx.Err() == nil {
				logger.Error(err, "Could not keep the flow schemas and priority levels; trying again")
			}
		}
	}
}

func (b *Bootstrap) leave(ctx context.Context) {
	if !b.reachable() {
		return
	}
	others, err := b.othersAddresses(ctx)
	if err == nil && len(others) > 0 {
		err = b.writeEndpoints(ctx, others)
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Could not take this server out of the endpoints", "err", err)
	}
}
