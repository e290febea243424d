package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validatePorts(ports []corev1.ContainerPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range ports {
		p, at := &ports[i], path.Index(i)
		if p.Name != "" {
			if more := problems(p.Name, at.Child("name"), utilvalidation.IsValidPortName); len(more) > 0 {
				errs = append(errs, more...)
			} else if names.Has(p.Name) {
				errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
			} else {
				names.Insert(p.Name)
			}
		}
		if p.ContainerPort == 0 {
			errs = append(errs, field.Required(at.Child("containerPort"), ""))
		} else {
			errs = append(errs, portNumber(p.ContainerPort, at.Child("containerPort"))...)
		}
		if p.HostPort != 0 {
			errs = append(errs, portNumber(p.HostPort, at.Child("hostPort"))...)
		}
		errs = append(errs, enum(p.Protocol, at.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP,
			corev1.ProtocolUDP)...)
	}
	return errs
}

func portNumber(port int32, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsValidPortNum(int(port)) {
		errs = append(errs, field.Invalid(at, port, msg))
	}
	return errs
}

func portNumberOrName(port intstr.IntOrString, at *field.Path) field.ErrorList {
	if port.Type == intstr.Int {
		return portNumber(port.IntVal, at)
	}
	return problems(port.StrVal, at, utilvalidation.IsValidPortName)
}

// hostNetworkPorts checks that on the host's network a container's port is the host's.
func hostNetworkPorts(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range s.Containers {
		for j, p := range s.Containers[i].Ports {
			if s.HostNetwork && p.HostPort != 0 && p.HostPort != p.ContainerPort {
				errs = append(errs, field.Invalid(path.Index(i).Child("ports").Index(j).Child("hostPort"), p.HostPort,
					"must match `containerPort` when `hostNetwork` is true"))
			}
		}
	}
	return errs
}

// hostPortConflicts finds ports of the host that more than one of the containers want.
func hostPortConflicts(list []corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	taken := map[string]bool{}
	for i := range list {
		errs = append(errs, takeHostPorts(&list[i], path.Index(i), taken)...)
	}
	return errs
}

func takeHostPorts(ctr *corev1.Container, at *field.Path, taken map[string]bool) field.ErrorList {
	var errs field.ErrorList
	for j, p := range ctr.Ports {
		if p.HostPort == 0 {
			continue
		}
		key := fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort)
		if taken[key] {
			errs = append(errs, field.Duplicate(at.Child("ports").Index(j).Child("hostPort"), key))
		}
		taken[key] = true
	}
	return errs
}
