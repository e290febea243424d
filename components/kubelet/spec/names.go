package spec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Hosts writes the pod's /etc/hosts anew, in place, for containers that were made before its address was known.
func (b *Builder) Hosts(pod *v1.Pod) error {
	if b.Virtual {
		return nil
	}
	return b.writeHosts(filepath.Join(b.podDir(pod), hostsFile), pod)
}

const hostsFile = "etc-hosts"

func (b *Builder) podDir(pod *v1.Pod) string { return filepath.Join(b.Root, "pods", string(pod.UID)) }

// writeHosts writes the pod's /etc/hosts. The file is written in place: containers have it mounted.
func (b *Builder) writeHosts(path string, pod *v1.Pod) error {
	var text strings.Builder
	text.WriteString("# Kubernetes-managed hosts file")
	if pod.Spec.HostNetwork {
		text.WriteString(" (host network).\n")
		own, err := os.ReadFile("/etc/hosts")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		text.Write(own)
	} else {
		text.WriteString(".\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
		text.WriteString("fe00::\tip6-localnet\nfe00::\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n")
		name, domain := Hostname(pod, b.ClusterDomain)
		for _, ip := range pod.Status.PodIPs {
			if domain != "" {
				fmt.Fprintf(&text, "%s\t%s.%s\t%s\n", ip.IP, name, domain, name)
			} else {
				fmt.Fprintf(&text, "%s\t%s\n", ip.IP, name)
			}
		}
	}
	if len(pod.Spec.HostAliases) > 0 {
		text.WriteString("\n# Entries added by HostAliases.\n")
		for _, alias := range pod.Spec.HostAliases {
			fmt.Fprintf(&text, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
		}
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

// resolver is the content of a resolv.conf.
type resolver struct{ servers, searches, options []string }

// writeResolvConf writes the pod's resolv.conf as its DNS policy asks
// (https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy).
func (b *Builder) writeResolvConf(path string, pod *v1.Pod) error {
	r, err := b.resolver(pod)
	if err != nil {
		return err
	}
	var text strings.Builder
	if len(r.searches) > 0 {
		fmt.Fprintf(&text, "search %s\n", strings.Join(r.searches, " "))
	}
	for _, server := range r.servers {
		fmt.Fprintf(&text, "nameserver %s\n", server)
	}
	if len(r.options) > 0 {
		fmt.Fprintf(&text, "options %s\n", strings.Join(r.options, " "))
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

func (b *Builder) resolver(pod *v1.Pod) (resolver, error) {
	var r resolver
	policy := pod.Spec.DNSPolicy
	cluster := policy == v1.DNSClusterFirstWithHostNet || (policy == v1.DNSClusterFirst && !pod.Spec.HostNetwork)
	if policy != v1.DNSNone {
		host, err := b.hostResolver()
		if err != nil {
			return r, err
		}
		r = host
		if cluster && len(b.ClusterDNS) > 0 {
			r.servers = slices.Clone(b.ClusterDNS)
			if b.ClusterDomain != "" {
				r.searches = append([]string{pod.Namespace + ".svc." + b.ClusterDomain, "svc." + b.ClusterDomain, b.ClusterDomain}, host.searches...)
			}
			r.options = []string{"ndots:5"}
		}
	}
	if c := pod.Spec.DNSConfig; c != nil {
		r.servers = unique(append(r.servers, c.Nameservers...))
		r.searches = unique(append(r.searches, c.Searches...))
		r.options = mergeOptions(r.options, c.Options)
	}
	return r, nil
}

func (b *Builder) hostResolver() (resolver, error) {
	var r resolver
	if b.ResolvConf == "" {
		return r, nil
	}
	data, err := os.ReadFile(b.ResolvConf)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("resolvConf: %w", err)
	}
	for _, line := range strings.Split(string(data), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			r.servers = append(r.servers, fields[1])
		case "search":
			r.searches = fields[1:]
		case "options":
			r.options = append(r.options, fields[1:]...)
		}
	}
	return r, nil
}

func unique(words []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(words), func(word string) bool {
		again := seen[word]
		seen[word] = true
		return again
	})
}

// mergeOptions adds options; one of the same name replaces.
func mergeOptions(have []string, more []v1.PodDNSConfigOption) []string {
	for _, option := range more {
		text := option.Name
		if option.Value != nil {
			text += ":" + *option.Value
		}
		have = slices.DeleteFunc(slices.Clone(have), func(old string) bool {
			name, _, _ := strings.Cut(old, ":")
			return name == option.Name
		})
		have = append(have, text)
	}
	return have
}
