package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/cluster/internal/addons"
	"quintet.dev/quintet/components/provisioner"
)

// hasDNS tells whether pods resolve names by cluster DNS.
func (c *config) hasDNS() bool { return !c.without[DNS] && c.hasPodNetwork() }

// deployAddons creates what runs in the cluster itself.
func (s *start) deployAddons(ctx context.Context) error {
	config := s.cluster.config
	objects := addons.KubeletClientBinding(kubeletClientUser)
	if config.hasDNS() {
		dns, err := addons.DNS(addons.DNSOptions{
			Image: config.image(DNS), Args: config.args[DNS], Replicas: int32(min(2, config.nodes)),
			Domain: clusterDomain, ClusterIPs: config.serviceIPs(dnsServiceIP),
		})
		if err != nil {
			return fmt.Errorf("cluster DNS: %w", err)
		}
		objects = append(objects, dns...)
	}
	if ref := config.images[KubeProxy]; ref != "" && config.hasPodNetwork() && !config.without[KubeProxy] {
		objects = append(objects, addons.KubeProxy(addons.KubeProxyOptions{
			Image: ref, Args: config.args[KubeProxy], Server: s.layout.apiURL(Node), ClusterCIDRs: config.podCIDRs(),
		})...)
	}
	if config.hasPodNetwork() && !config.without[NetworkPolicy] {
		objects = append(objects, addons.NetworkPolicyRole(policyUser)...)
	}
	if config.hasVolumeProvisioner() {
		objects = append(objects, addons.VolumeProvisionerRole(provisionerUser)...)
		objects = append(objects, addons.DefaultStorageClass(provisioner.Name))
	}
	if config.hasCSIDriver() {
		objects = append(objects, addons.CSIDriverObjects(config.csiDriver())...)
		if err := s.cluster.LoadImage(ctx, config.image(CSIDriver)); err != nil {
			return err
		}
	}
	if config.hasDeviceDriver() {
		objects = append(objects, addons.DeviceDriverObjects(config.deviceDriver())...)
		if err := s.cluster.LoadImage(ctx, config.image(DeviceDriver)); err != nil {
			return err
		}
	}
	if len(config.names(CloudProvider)) > 0 {
		objects = append(objects, addons.CloudProviderRole(cloudProviderUser)...)
	}
	if len(config.names(MetricsServer)) > 0 {
		objects = append(objects, addons.MetricsServerObjects(s.layout.metricsOptions())...)
	}
	for _, component := range []Component{DNS, KubeProxy} {
		if ref := config.images[component]; ref != "" && config.hasPodNetwork() && !config.without[component] {
			if err := s.cluster.LoadImage(ctx, ref); err != nil {
				return err
			}
		}
	}
	client, err := kubernetes.NewForConfig(s.cluster.rest)
	if err != nil {
		return err
	}
	if config.from != nil && len(config.names(MetricsServer)) > 0 {
		if err := s.forgetMetrics(ctx, client); err != nil {
			return err
		}
	}
	if err := addons.Apply(ctx, client, objects); err != nil || len(config.names(MetricsServer)) == 0 {
		return err
	}
	return s.registerMetrics(ctx)
}

func (s *start) dnsReady(ctx context.Context) error {
	config := s.cluster.config
	if !config.hasDNS() || config.without[ControllerManager] || config.without[Scheduler] {
		return nil // nothing makes or places its pods
	}
	return s.cluster.WaitDNS(ctx)
}

// WaitDNS returns when cluster DNS is served by a ready pod.
func (c *Cluster) WaitDNS(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return err
	}
	return until(ctx, func(ctx context.Context) error {
		deployment, err := client.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "coredns", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if deployment.Status.ReadyReplicas == 0 {
			return fmt.Errorf("none of %d pods of the Deployment kube-system/coredns is ready",
				deployment.Status.Replicas)
		}
		return nil
	})
}
