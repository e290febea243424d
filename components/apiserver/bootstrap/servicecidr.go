package bootstrap

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/objects"
)

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
	if err != nil || current.DeletionTimestamp != nil ||
		meta.FindStatusCondition(current.Status.Conditions, networkingv1.ServiceCIDRConditionReady) != nil {
		return err // once it stands, the condition is the controllers' business
	}
	_, err = b.cfg.Objects.UpdateStatus(ctx, resource, "", serviceName, func(stored kinds.Object) (kinds.Object, error) {
		meta.SetStatusCondition(&stored.(*networkingv1.ServiceCIDR).Status.Conditions, metav1.Condition{
			Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(b.cfg.Clock.Now()),
			Message: "Kubernetes default Service CIDR is ready",
		})
		return stored, nil
	})
	return err
}
