package bootstrap

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

const serviceName = "kubernetes"

// ServicePort is where the Service listens by which the cluster reaches API servers.
const ServicePort = 443

// reachable: without an address that others can use, or without a reconciler of endpoints, the Service has none.
func (b *Bootstrap) reachable() bool {
	return b.cfg.ServiceIP != nil && b.cfg.AdvertiseAddress != nil && (b.cfg.Masters != nil || b.cfg.Servers > 0)
}

// ensureService makes the Service by which pods find the API server.
func (b *Bootstrap) ensureService(ctx context.Context) error {
	if b.cfg.ServiceIP == nil {
		return nil
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault,
			Name:      serviceName,
			Labels:    map[string]string{"provider": "kubernetes", "component": "apiserver"},
		},
		Spec: corev1.ServiceSpec{
			Type:            corev1.ServiceTypeClusterIP,
			ClusterIP:       b.cfg.ServiceIP.String(),
			IPFamilyPolicy:  ptr.To(corev1.IPFamilyPolicySingleStack),
			SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{{
				Name: "https", Protocol: corev1.ProtocolTCP, Port: ServicePort,
				TargetPort: intstr.FromInt(b.cfg.SecurePort),
			}},
		},
	}
	if b.cfg.NodePort > 0 {
		service.Spec.Type, service.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, int32(b.cfg.NodePort)
	}
	return b.createMissing(ctx, corev1.Resource("services"), service)
}

// write creates obj, or lets change repair what is stored; change reports whether it had to.
func (b *Bootstrap) write(ctx context.Context, resource schema.GroupResource, obj api.Object,
	change func(api.Object) bool) error {
	current, err := b.cfg.Objects.Get(ctx, resource, obj.GetNamespace(), obj.GetName())
	if apierrors.IsNotFound(err) {
		if _, err = b.cfg.Objects.Create(ctx, resource, obj); err == nil {
			return nil
		}
		if err = b.appears(ctx, resource, obj, err); err != nil {
			return err
		}
	} else if err != nil {
		return err
	} else if !change(current.DeepCopyObject().(api.Object)) {
		return nil
	}
	_, err = b.cfg.Objects.Update(ctx, resource, obj.GetNamespace(), obj.GetName(),
		func(stored api.Object) (api.Object, error) {
			change(stored)
			return stored, nil
		})
	return err
}

// appears waits for an object that could not be created because another server that starts at the same time creates it
// just now: it is there already, or its address is taken for it. If it doesn't appear, refusal is why it could not be
// created. Run, which has a lease to renew and tries again soon, looks only once.
func (b *Bootstrap) appears(ctx context.Context, resource schema.GroupResource, obj api.Object, refusal error) error {
	if !apierrors.IsAlreadyExists(refusal) && !apierrors.IsInvalid(refusal) {
		return refusal
	}
	there := func(ctx context.Context) (bool, error) {
		_, err := b.cfg.Objects.Live(ctx, resource, obj.GetNamespace(), obj.GetName())
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	}
	if b.running {
		if found, err := there(ctx); found || err != nil {
			return err
		}
		return refusal
	}
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 5*time.Second, true, there)
	if wait.Interrupted(err) {
		return refusal
	}
	return err
}

func setLabels(obj metav1.Object, labels map[string]string) {
	all := obj.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	for k, v := range labels {
		all[k] = v
	}
	obj.SetLabels(all)
}
