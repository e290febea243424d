package bootstrap

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

const (
	// leaseDuration is how long a server that no longer renews counts as one of the cluster's.
	leaseDuration = time.Hour

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

// serverLease is the Lease by which other servers know of this one. None is written without a holder.
type serverLease struct {
	writer      *objectWriter
	clock       clock.PassiveClock
	host        string
	peerAddress string // host:port, where other API servers reach this one; "" isn't told
	holder      string // this run of the server
}

// begin recreates the Lease of this server: that of a former run must not be taken for this one's.
func (l *serverLease) begin(ctx context.Context) error {
	if l.holder == "" {
		return nil
	}
	if err := l.delete(ctx, func(*coordinationv1.Lease) bool { return true }); err != nil {
		return err
	}
	_, err := l.writer.objects.Create(ctx, leases, l.now())
	if apierrors.IsAlreadyExists(err) {
		return l.renew(ctx)
	}
	return err
}

// end deletes the Lease of this server, unless another run of it holds it already.
func (l *serverLease) end(ctx context.Context) error {
	if l.holder == "" {
		return nil
	}
	return l.delete(ctx,
		func(found *coordinationv1.Lease) bool { return ptr.Deref(found.Spec.HolderIdentity, "") == l.holder })
}

// delete deletes such a Lease of this host. Another one may come meanwhile, which stays.
func (l *serverLease) delete(ctx context.Context, such func(*coordinationv1.Lease) bool) error {
	name := LeaseName(l.host)
	found, err := objects.As[*coordinationv1.Lease](l.writer.objects.Get(ctx, leases, metav1.NamespaceSystem, name))
	if err == nil && such(found) {
		err = l.writer.objects.Delete(ctx, leases, metav1.NamespaceSystem, name, found.UID)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// now says that this server is alive now.
func (l *serverLease) now() *coordinationv1.Lease {
	now := metav1.NewMicroTime(l.clock.Now())
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem,
			Name:      LeaseName(l.host),
			Labels:    map[string]string{identityLabel: identity, hostLabel: l.host},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       ptr.To(l.holder),
			LeaseDurationSeconds: ptr.To(int32(leaseDuration / time.Second)),
			RenewTime:            &now,
		},
	}
	if l.peerAddress != "" {
		lease.Annotations = map[string]string{corev1.AnnotationPeerAdvertiseAddress: l.peerAddress}
	}
	return lease
}

func (l *serverLease) renew(ctx context.Context) error {
	if l.holder == "" {
		return nil
	}
	lease := l.now()
	return l.writer.write(ctx, leases, lease, func(obj api.Object) bool {
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

// deleteExpired deletes the leases of servers that are long gone.
func (l *serverLease) deleteExpired(ctx context.Context) error {
	if l.holder == "" {
		return nil
	}
	list, err := objects.ListAs[*coordinationv1.Lease](l.writer.objects.List(ctx, leases, metav1.NamespaceSystem))
	if err != nil {
		return err
	}
	var errs []error
	for _, lease := range list {
		if !IsServer(lease) || !l.expired(lease) {
			continue
		}
		// A server that comes back just now has renewed it, which a cache may not know yet.
		fresh, err := objects.As[*coordinationv1.Lease](l.writer.objects.Live(ctx, leases, lease.Namespace, lease.Name))
		if err == nil && l.expired(fresh) {
			err = l.writer.objects.Delete(ctx, leases, lease.Namespace, lease.Name, fresh.UID)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (l *serverLease) expired(lease *coordinationv1.Lease) bool {
	if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return true
	}
	life := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	return lease.Spec.RenewTime.Add(life).Before(l.clock.Now())
}
