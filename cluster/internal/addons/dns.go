package addons

import (
	"errors"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// DNSOptions of cluster DNS.
type DNSOptions struct {
	Image    string
	Args     []string // after those that the add-on gives
	Replicas int32
	Domain   string
	// ClusterIPs are the addresses of the Service, the primary one first.
	ClusterIPs []string
}

// corefile is kubeadm's.
const corefile = `.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes DOMAIN in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success DOMAIN
       disable denial DOMAIN
    }
    loop
    reload
    loadbalance
}
`

const (
	dnsName = "coredns"
	appKey  = "k8s-app"
	dnsApp  = "kube-dns"
)

// DNS is cluster DNS (https://kubernetes.io/docs/tasks/administer-cluster/coredns/). It fails without cluster IPs.
func DNS(o DNSOptions) ([]runtime.Object, error) {
	if len(o.ClusterIPs) == 0 {
		return nil, errors.New("service kube-system/kube-dns has no cluster IP, to which the kubelets' clusterDNS leads: " +
			"give it one of each of the cluster's Service ranges")
	}
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: dnsName, Namespace: metav1.NamespaceSystem}
	return append(role("system:coredns", account,
		rule("", []string{"endpoints", "services", "pods", "namespaces"}, "list", "watch"),
		rule("discovery.k8s.io", []string{"endpointslices"}, "list", "watch")),
		&v1.ServiceAccount{ObjectMeta: meta(dnsName, nil)},
		&v1.ConfigMap{ObjectMeta: meta(dnsName, nil), Data: map[string]string{"Corefile": corefileOf(o.Domain)}},
		dnsDeployment(o), dnsService(o)), nil
}

func meta(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name, Labels: labels}
}

func dnsService(o DNSOptions) *v1.Service {
	object := meta("kube-dns", map[string]string{
		appKey: dnsApp, "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS",
	})
	object.Annotations = map[string]string{"prometheus.io/port": "9153", "prometheus.io/scrape": "true"}
	port := func(name string, number int32, protocol v1.Protocol) v1.ServicePort {
		return v1.ServicePort{Name: name, Port: number, Protocol: protocol, TargetPort: intstr.FromInt32(number)}
	}
	policy := v1.IPFamilyPolicySingleStack
	if len(o.ClusterIPs) > 1 {
		policy = v1.IPFamilyPolicyRequireDualStack
	}
	return &v1.Service{ObjectMeta: object, Spec: v1.ServiceSpec{
		ClusterIP: o.ClusterIPs[0], ClusterIPs: o.ClusterIPs, IPFamilyPolicy: &policy,
		Selector: map[string]string{appKey: dnsApp},
		Ports: []v1.ServicePort{
			port("dns", 53, v1.ProtocolUDP), port("dns-tcp", 53, v1.ProtocolTCP), port("metrics", 9153, v1.ProtocolTCP),
		},
	}}
}

func dnsDeployment(o DNSOptions) *appsv1.Deployment {
	labels := map[string]string{appKey: dnsApp}
	return &appsv1.Deployment{ObjectMeta: meta(dnsName, labels), Spec: appsv1.DeploymentSpec{
		Replicas: &o.Replicas,
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Strategy: appsv1.DeploymentStrategy{
			Type:          appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: ptr.To(intstr.FromInt32(1))},
		},
		Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: v1.PodSpec{
			ServiceAccountName: dnsName,
			PriorityClassName:  "system-cluster-critical",
			DNSPolicy:          v1.DNSDefault,
			NodeSelector:       map[string]string{v1.LabelOSStable: "linux"},
			Tolerations: []v1.Toleration{
				{Key: "CriticalAddonsOnly", Operator: v1.TolerationOpExists},
				{Key: "node-role.kubernetes.io/control-plane", Effect: v1.TaintEffectNoSchedule},
			},
			// Required, unlike kubeadm's: the pods are there before the nodes, and all would go to the first one.
			Affinity: &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
					TopologyKey:   v1.LabelHostname,
					LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
				}},
			}},
			Containers: []v1.Container{dnsContainer(o)},
			Volumes: []v1.Volume{{Name: "config-volume", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
				LocalObjectReference: v1.LocalObjectReference{Name: dnsName},
				Items:                []v1.KeyToPath{{Key: "Corefile", Path: "Corefile"}},
			}}}},
		}},
	}}
}

func dnsContainer(o DNSOptions) v1.Container {
	port := func(name string, number int32, protocol v1.Protocol) v1.ContainerPort {
		return v1.ContainerPort{Name: name, ContainerPort: number, Protocol: protocol}
	}
	probe := func(path string, number int32) v1.ProbeHandler {
		return v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: path, Port: intstr.FromInt32(number),
			Scheme: v1.URISchemeHTTP}}
	}
	return v1.Container{
		Name: dnsName, Image: o.Image, ImagePullPolicy: v1.PullIfNotPresent,
		Args: append([]string{"-conf", "/etc/coredns/Corefile"}, o.Args...),
		Ports: []v1.ContainerPort{
			port("dns", 53, v1.ProtocolUDP), port("dns-tcp", 53, v1.ProtocolTCP), port("metrics", 9153, v1.ProtocolTCP),
			port("liveness-probe", 8080, v1.ProtocolTCP), port("readiness-probe", 8181, v1.ProtocolTCP),
		},
		Resources: v1.ResourceRequirements{
			Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("170Mi")},
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"),
				v1.ResourceMemory: resource.MustParse("70Mi")},
		},
		VolumeMounts: []v1.VolumeMount{{Name: "config-volume", MountPath: "/etc/coredns", ReadOnly: true}},
		LivenessProbe: &v1.Probe{
			ProbeHandler: probe("/health", 8080), InitialDelaySeconds: 60, TimeoutSeconds: 5, SuccessThreshold: 1,
			FailureThreshold: 5,
		},
		// A cluster is ready when DNS is, so its probe has a shorter period than kubeadm's.
		ReadinessProbe: &v1.Probe{ProbeHandler: probe("/ready", 8181), PeriodSeconds: 1, TimeoutSeconds: 1,
			FailureThreshold: 3},
		SecurityContext: &v1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &v1.Capabilities{Add: []v1.Capability{"NET_BIND_SERVICE"}, Drop: []v1.Capability{"ALL"}},
		},
	}
}

func corefileOf(domain string) string { return strings.ReplaceAll(corefile, "DOMAIN", domain) }
