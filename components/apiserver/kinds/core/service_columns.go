package core

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// ServiceColumns are the columns of services.
func ServiceColumns() show.Columns {
	doc := corev1.ServiceSpec{}.SwaggerDoc()
	return show.Name().
		String("Type", doc["type"]).
		String("Cluster-IP", doc["clusterIP"]).
		String("External-IP", doc["externalIPs"]).
		String("Port(s)", doc["ports"]).
		Age().
		Wide("Selector", doc["selector"])
}

// ServiceRow are the cells of a service.
func ServiceRow(s *corev1.Service) []any {
	ip := show.None
	if len(s.Spec.ClusterIPs) > 0 {
		ip = s.Spec.ClusterIPs[0]
	}
	return []any{
		s.Name, string(s.Spec.Type), ip, externalIP(s), servicePorts(s.Spec.Ports),
		show.Age(s.CreationTimestamp), show.Labels(s.Spec.Selector),
	}
}

func externalIP(s *corev1.Service) string {
	switch s.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		return show.Join(s.Spec.ExternalIPs, ",")
	case corev1.ServiceTypeLoadBalancer:
		var all []string
		for _, ing := range s.Status.LoadBalancer.Ingress {
			if ing.IP != "" {
				all = append(all, ing.IP)
			} else if ing.Hostname != "" {
				all = append(all, ing.Hostname)
			}
		}
		slices.Sort(all)
		all = append(slices.Compact(all), s.Spec.ExternalIPs...)
		if len(all) == 0 {
			return "<pending>"
		}
		return strings.Join(all, ",")
	}
	return show.Unknown
}

func servicePorts(ports []corev1.ServicePort) string {
	out := make([]string, len(ports))
	for i, p := range ports {
		out[i] = fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if p.NodePort > 0 {
			out[i] = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		}
	}
	return show.Join(out, ",")
}

// EndpointsColumns are the columns of endpoints.
func EndpointsColumns() show.Columns {
	return show.Name().String("Endpoints", corev1.Endpoints{}.SwaggerDoc()["subsets"]).Age()
}

// EndpointsRow are the cells of endpoints.
func EndpointsRow(e *corev1.Endpoints) []any {
	var all []string
	for _, s := range e.Subsets {
		if len(s.Ports) == 0 {
			for _, a := range s.Addresses {
				all = append(all, a.IP)
			}
		}
		for _, p := range s.Ports {
			for _, a := range s.Addresses {
				all = append(all, net.JoinHostPort(a.IP, strconv.Itoa(int(p.Port))))
			}
		}
	}
	empty := ""
	if len(e.Subsets) == 0 {
		empty = show.None
	}
	return []any{e.Name, show.Few(all, empty), show.Age(e.CreationTimestamp)}
}
