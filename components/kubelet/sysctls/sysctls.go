// Package sysctls tells which kernel settings pods may set: the safe ones, which are namespaced and isolated from
// other pods, and the unsafe ones that the node's administrator allows.
package sysctls

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/util/sysctl"
)

// safe settings belong to one pod alone in every kernel that runs containers today.
var safe = []string{
	"kernel.shm_rmid_forced",
	"net.ipv4.ip_local_port_range",
	"net.ipv4.tcp_syncookies",
	"net.ipv4.ping_group_range",
	"net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.ip_local_reserved_ports",
	"net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl",
	"net.ipv4.tcp_keepalive_probes",
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_wmem",
}

// longest is how long the name of a setting may be.
const longest = 253

var pattern = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]$`)

// Allowed holds the sysctls that pods may set, by the kernel namespace of the sysctl. The zero value allows nothing.
type Allowed struct {
	names    map[string]sysctl.Namespace
	prefixes map[string]sysctl.Namespace
}

// New allows what is safe, and what the patterns name: settings, or beginnings of such that end in a star. A setting of
// the whole machine can't be allowed.
func New(patterns []string) (Allowed, error) {
	a := Allowed{names: map[string]sysctl.Namespace{}, prefixes: map[string]sysctl.Namespace{}}
	var wrong []error
	for _, name := range append(append([]string{}, safe...), patterns...) {
		if len(name) > longest || !pattern.MatchString(name) {
			wrong = append(wrong, fmt.Errorf("sysctl %q: use at most %d characters that match %s", name,
				longest, pattern))
			continue
		}
		namespace, rest, prefixed := sysctl.GetNamespace(name)
		switch {
		case namespace == sysctl.UnknownNamespace:
			wrong = append(wrong,
				fmt.Errorf("sysctl %q: it is not known to belong to a namespace, pods can't have it for themselves",
					rest))
		case prefixed:
			a.prefixes[rest] = namespace
		default:
			a.names[rest] = namespace
		}
	}
	return a, errors.Join(wrong...)
}

// Refuse returns why a pod's sysctls are not allowed, "" if they are.
func (a Allowed) Refuse(pod *v1.Pod) string {
	context := pod.Spec.SecurityContext
	if context == nil {
		return ""
	}
	for _, asked := range context.Sysctls {
		name := sysctl.NormalizeName(asked.Name)
		namespace, ok := a.namespace(name)
		switch {
		case !ok:
			return fmt.Sprintf("forbidden sysctl: %q not allowlisted", name)
		case namespace == sysctl.IPCNamespace && pod.Spec.HostIPC, namespace == sysctl.NetNamespace &&
			pod.Spec.HostNetwork:
			return fmt.Sprintf("forbidden sysctl: %q not allowed with host %s enabled", name, namespace)
		}
	}
	return ""
}

func (a Allowed) namespace(name string) (sysctl.Namespace, bool) {
	if namespace, ok := a.names[name]; ok {
		return namespace, true
	}
	for prefix, namespace := range a.prefixes {
		if strings.HasPrefix(name, prefix) {
			return namespace, true
		}
	}
	return "", false
}
