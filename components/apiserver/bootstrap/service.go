package bootstrap

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

const serviceName = "kubernetes"

// ServicePort is where the Service listens by which the cluster reaches API servers.
const ServicePort = 443

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
	return b.writer.createMissing(ctx, corev1.Resource("services"), service)
}
