package bootstrap

import (
	"context"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingapply "k8s.io/client-go/applyconfigurations/networking/v1"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/objects"
)

// serviceCIDRManager is who tells that the addresses of this server's configuration can be taken, as upstream's controller does.
const serviceCIDRManager = "kubernetes-service-cidr-controller"

// ensureServiceCIDR makes the object that tells which addresses Services get by this server's configuration. Later ranges
// come as further objects (KEP-1880), so one that is there keeps its ranges.
func (b *Bootstrap) ensureServiceCIDR(ctx context.Context) error {
	if len(b.cfg.ServiceCIDRs) == 0 {
		return nil
	}
	resource := networkingv1.Resource("servicecidrs")
	cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: serviceName}}
	for _, r := range b.cfg.ServiceCIDRs {
		cidr.Spec.CIDRs = append(cidr.Spec.CIDRs, r.String())
	}
	if err := b.createMissing(ctx, resource, cidr); err != nil {
		return err
	}
	current, err := objects.As[*networkingv1.ServiceCIDR](b.cfg.Objects.Live(ctx, resource, "", serviceName))
	if err != nil {
		return err
	}
	if is, was := cidr.Spec.CIDRs, current.Spec.CIDRs; len(is) == 2 && len(was) == 1 && is[0] == was[0] {
		_, err = b.cfg.Objects.Update(ctx, resource, "", serviceName, func(stored kinds.Object) (kinds.Object, error) {
			stored.(*networkingv1.ServiceCIDR).Spec.CIDRs = is // of the other family, too
			return stored, nil
		})
		return err
	}
	if current.DeletionTimestamp != nil || !slices.Equal(current.Spec.CIDRs, cidr.Spec.CIDRs) {
		return nil
	}
	const ready = networkingv1.ServiceCIDRConditionReady
	if c := meta.FindStatusCondition(current.Status.Conditions, ready); c != nil && c.Status != metav1.ConditionUnknown {
		return nil // once it stands, the condition is the controllers' business
	}
	status := networkingapply.ServiceCIDRStatus().WithConditions(metaapply.Condition().WithType(ready).WithStatus(metav1.ConditionTrue).
		WithMessage("Kubernetes default Service CIDR is ready").WithLastTransitionTime(metav1.NewTime(b.cfg.Clock.Now())))
	_, err = b.cfg.Objects.ApplyStatus(ctx, resource, "", serviceName, serviceCIDRManager, networkingapply.ServiceCIDR(serviceName).WithStatus(status))
	return err
}
