package spec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Hosts rewrites the pod's /etc/hosts in place, for containers that were created before its address was known.
func (b *Builder) Hosts(pod *v1.Pod) error {
	if b.Simulated.Files {
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
	return writeChanged(path, text.String())
}

// writeResolvConf writes the pod's resolv.conf, in place, too.
func (b *Builder) writeResolvConf(path string, pod *v1.Pod) error {
	r, _, err := b.resolver(pod) // its warnings are given when the sandbox is made
	if err != nil {
		return err
	}
	return writeChanged(path, r.String())
}

// writeChanged writes a file that has another content: containers that run must not see it empty for nothing. What is
// there is written over, and cut off after that, so that a full disk leaves no less than there was.
func writeChanged(path, text string) error {
	if have, err := os.ReadFile(path); err == nil && string(have) == text {
		return nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err = file.WriteString(text); err == nil {
		err = file.Truncate(int64(len(text)))
	}
	return errors.Join(err, file.Close())
}
