package bootstrap

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingapply "k8s.io/client-go/applyconfigurations/networking/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

// ServiceCIDRManager is the field manager of the condition that the addresses of this server's configuration can be
// allocated, as upstream's controller is.
const ServiceCIDRManager = "kubernetes-service-cidr-controller"

// defaultServiceCIDR is the object that tells which addresses Services get by this server's configuration. Faults of it
// are reported as events, once there is a recorder.
type defaultServiceCIDR struct {
	writer *objectWriter
	clock  clock.PassiveClock
	ranges []netip.Prefix // none: there is no object
	events record.EventRecorder

	toldOfRanges, toldOfUnready bool
}

func (c *defaultServiceCIDR) object() *networkingv1.ServiceCIDR {
	cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: serviceName}}
	for _, r := range c.ranges {
		cidr.Spec.CIDRs = append(cidr.Spec.CIDRs, r.String())
	}
	return cidr
}

// create makes the object. Later ranges come as further objects (KEP-1880), so one that is there keeps its
// ranges.
func (c *defaultServiceCIDR) create(ctx context.Context) error {
	if len(c.ranges) == 0 {
		return nil
	}
	return c.writer.createMissing(ctx, serviceCIDRs, c.object())
}

var serviceCIDRs = networkingv1.Resource("servicecidrs")

// ensure makes the object, and tells in its status that its addresses can be taken. A server doesn't wait
// for this to be ready, as upstream's doesn't.
func (c *defaultServiceCIDR) ensure(ctx context.Context) error {
	if len(c.ranges) == 0 {
		return nil
	}
	resource, cidr := serviceCIDRs, c.object()
	if err := c.create(ctx); err != nil {
		return err
	}
	current, err := objects.As[*networkingv1.ServiceCIDR](c.writer.objects.Live(ctx, resource, "", serviceName))
	if err != nil {
		return err
	}
	if is, was := cidr.Spec.CIDRs, current.Spec.CIDRs; len(is) == 2 && len(was) == 1 && is[0] == was[0] {
		_, err = c.writer.objects.Update(ctx, resource, "", serviceName, func(stored api.Object) (api.Object, error) {
			stored.(*networkingv1.ServiceCIDR).Spec.CIDRs = is // of the other family, too
			return stored, nil
		})
		if err != nil {
			c.warn(current, reasonFailed, "The default ServiceCIDR can not be upgraded from %s to dual stack %v : %v",
				is[0], is, err)
		}
		return err
	}
	if current.DeletionTimestamp != nil {
		return nil
	}
	if !slices.Equal(current.Spec.CIDRs, cidr.Spec.CIDRs) {
		c.warnOnce(&c.toldOfRanges, current, "KubernetesDefaultServiceCIDRInconsistent",
			"The default ServiceCIDR %v does not match the controller flag configurations %s", current.Spec.CIDRs,
			cidr.Spec.CIDRs)
		return nil
	}
	const ready = networkingv1.ServiceCIDRConditionReady
	if is := meta.FindStatusCondition(current.Status.Conditions, ready); is != nil &&
		is.Status != metav1.ConditionUnknown {
		if is.Status == metav1.ConditionFalse {
			c.warnOnce(&c.toldOfUnready, current, is.Reason, "Configuration matches, but %s", is.Message)
		}
		return nil // once it stands, the condition is the controllers' business
	}
	status := networkingapply.ServiceCIDRStatus().WithConditions(
		metaapply.Condition().WithType(ready).WithStatus(metav1.ConditionTrue).
			WithMessage("Kubernetes default Service CIDR is ready").WithLastTransitionTime(
			metav1.NewTime(c.clock.Now())))
	_, err = c.writer.objects.ApplyStatus(ctx, resource, "", serviceName, ServiceCIDRManager,
		networkingapply.ServiceCIDR(serviceName).WithStatus(status))
	if err != nil {
		c.warn(current, reasonFailed, "The default ServiceCIDR Status can not be set to Ready=True")
	}
	return err
}

// reasonFailed is upstream's, as the texts are.
const reasonFailed = "KubernetesDefaultServiceCIDRError"

// warn tells in an event what is wrong with the object of this server's ranges, once the server can write events.
func (c *defaultServiceCIDR) warn(about *networkingv1.ServiceCIDR, reason, text string, args ...any) {
	if c.events != nil {
		c.events.Eventf(about, corev1.EventTypeWarning, reason, text, args...)
	}
}

// warnOnce reports a fault that only an administrator can fix.
func (c *defaultServiceCIDR) warnOnce(told *bool, about *networkingv1.ServiceCIDR, reason, text string, args ...any) {
	if c.events != nil && !*told {
		*told = true
		c.warn(about, reason, text, args...)
	}
}
