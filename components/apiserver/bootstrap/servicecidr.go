package bootstrap

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingapply "k8s.io/client-go/applyconfigurations/networking/v1"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

// ServiceCIDRManager is the field manager of the condition that the addresses of this server's configuration can be
// allocated, as upstream's controller is.
const ServiceCIDRManager = "kubernetes-service-cidr-controller"

// serviceCIDR is the object that tells which addresses Services get by this server's configuration.
func (b *Bootstrap) serviceCIDR() *networkingv1.ServiceCIDR {
	cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: serviceName}}
	for _, r := range b.cfg.ServiceCIDRs {
		cidr.Spec.CIDRs = append(cidr.Spec.CIDRs, r.String())
	}
	return cidr
}

// createServiceCIDR makes that object. Later ranges come as further objects (KEP-1880), so one that is there keeps its
// ranges.
func (b *Bootstrap) createServiceCIDR(ctx context.Context) error {
	if len(b.cfg.ServiceCIDRs) == 0 {
		return nil
	}
	return b.createMissing(ctx, serviceCIDRs, b.serviceCIDR())
}

var serviceCIDRs = networkingv1.Resource("servicecidrs")

// ensureServiceCIDR makes that object, and tells in its status that its addresses can be taken. A server doesn't wait
// for this to be ready, as upstream's doesn't.
func (b *Bootstrap) ensureServiceCIDR(ctx context.Context) error {
	if len(b.cfg.ServiceCIDRs) == 0 {
		return nil
	}
	resource, cidr := serviceCIDRs, b.serviceCIDR()
	if err := b.createServiceCIDR(ctx); err != nil {
		return err
	}
	current, err := objects.As[*networkingv1.ServiceCIDR](b.cfg.Objects.Live(ctx, resource, "", serviceName))
	if err != nil {
		return err
	}
	if is, was := cidr.Spec.CIDRs, current.Spec.CIDRs; len(is) == 2 && len(was) == 1 && is[0] == was[0] {
		_, err = b.cfg.Objects.Update(ctx, resource, "", serviceName, func(stored api.Object) (api.Object, error) {
			stored.(*networkingv1.ServiceCIDR).Spec.CIDRs = is // of the other family, too
			return stored, nil
		})
		if err != nil {
			b.warn(current, reasonFailed, "The default ServiceCIDR can not be upgraded from %s to dual stack %v : %v",
				is[0], is, err)
		}
		return err
	}
	if current.DeletionTimestamp != nil {
		return nil
	}
	if !slices.Equal(current.Spec.CIDRs, cidr.Spec.CIDRs) {
		b.warnOnce(&b.toldOfRanges, current, "KubernetesDefaultServiceCIDRInconsistent",
			"The default ServiceCIDR %v does not match the controller flag configurations %s", current.Spec.CIDRs,
			cidr.Spec.CIDRs)
		return nil
	}
	const ready = networkingv1.ServiceCIDRConditionReady
	if c := meta.FindStatusCondition(current.Status.Conditions, ready); c != nil &&
		c.Status != metav1.ConditionUnknown {
		if c.Status == metav1.ConditionFalse {
			b.warnOnce(&b.toldOfUnready, current, c.Reason, "Configuration matches, but %s", c.Message)
		}
		return nil // once it stands, the condition is the controllers' business
	}
	status := networkingapply.ServiceCIDRStatus().WithConditions(
		metaapply.Condition().WithType(ready).WithStatus(metav1.ConditionTrue).
			WithMessage("Kubernetes default Service CIDR is ready").WithLastTransitionTime(
			metav1.NewTime(b.cfg.Clock.Now())))
	_, err = b.cfg.Objects.ApplyStatus(ctx, resource, "", serviceName, ServiceCIDRManager,
		networkingapply.ServiceCIDR(serviceName).WithStatus(status))
	if err != nil {
		b.warn(current, reasonFailed, "The default ServiceCIDR Status can not be set to Ready=True")
	}
	return err
}

// reasonFailed is upstream's, as the texts are.
const reasonFailed = "KubernetesDefaultServiceCIDRError"

// warn tells in an event what is wrong with the object of this server's ranges, once the server can write events.
func (b *Bootstrap) warn(about *networkingv1.ServiceCIDR, reason, text string, args ...any) {
	if b.events != nil {
		b.events.Eventf(about, corev1.EventTypeWarning, reason, text, args...)
	}
}

// warnOnce reports a fault that only an administrator can fix.
func (b *Bootstrap) warnOnce(told *bool, about *networkingv1.ServiceCIDR, reason, text string, args ...any) {
	if b.events != nil && !*told {
		*told = true
		b.warn(about, reason, text, args...)
	}
}
