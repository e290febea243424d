package addons

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// KubeProxyOptions of a kube-proxy in pods.
type KubeProxyOptions struct {
	Image string
	Args  []string // after those that the add-on gives
	// Server is the address of the API, which a proxy can't reach by the Service that it is to make reachable.
	Server       string
	ClusterCIDRs []string // of pods
}

const proxyName = "kube-proxy"

// KubeProxy is a kube-proxy on each node, as kubeadm deploys it.
func KubeProxy(o KubeProxyOptions) []runtime.Object {
	config := fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: /var/lib/kube-proxy/kubeconfig.conf}
clusterCIDR: %q
conntrack: {maxPerCore: 0, min: 0}
`, strings.Join(o.ClusterCIDRs, ","))
	kubeconfig := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: default, cluster: {server: %q, certificate-authority: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt}}]
users: [{name: default, user: {tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}}]
contexts: [{name: default, context: {cluster: default, user: default}}]
current-context: default
`, o.Server)
	return []runtime.Object{
		&v1.ServiceAccount{ObjectMeta: meta(proxyName, nil)},
		serviceRole(proxyName),
		&v1.ConfigMap{ObjectMeta: meta(proxyName, nil),
			Data: map[string]string{"config.conf": config, "kubeconfig.conf": kubeconfig}},
		proxyDaemonSet(o),
	}
}

func proxyDaemonSet(o KubeProxyOptions) *appsv1.DaemonSet {
	labels := map[string]string{appKey: proxyName}
	return &appsv1.DaemonSet{ObjectMeta: meta(proxyName, labels), Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: v1.PodSpec{
			ServiceAccountName: proxyName, PriorityClassName: "system-node-critical", HostNetwork: true,
			NodeSelector: map[string]string{v1.LabelOSStable: "linux"},
			Tolerations:  []v1.Toleration{{Operator: v1.TolerationOpExists}},
			Containers: []v1.Container{{
				Name: proxyName, Image: o.Image, ImagePullPolicy: v1.PullIfNotPresent,
				Command: append([]string{
					"kube-proxy", "--config=/var/lib/kube-proxy/config.conf", "--hostname-override=$(NODE_NAME)",
				}, o.Args...),
				Env: []v1.EnvVar{{Name: "NODE_NAME", ValueFrom: &v1.EnvVarSource{
					FieldRef: &v1.ObjectFieldSelector{FieldPath: "spec.nodeName"},
				}}},
				SecurityContext: &v1.SecurityContext{Capabilities: &v1.Capabilities{Add: []v1.Capability{"NET_ADMIN"}}},
				VolumeMounts:    []v1.VolumeMount{{Name: proxyName, MountPath: "/var/lib/kube-proxy"}},
			}},
			Volumes: []v1.Volume{{Name: proxyName, VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
				LocalObjectReference: v1.LocalObjectReference{Name: proxyName}, Optional: ptr.To(false),
			}}}},
		}},
	}}
}
