package spec

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// security translates the security contexts of pod and container, the container's winning.
func (b *Builder) security(r *Request, s *runtime.ContainerSpec) error {
	podContext, own := r.Pod.Spec.SecurityContext, r.Container.SecurityContext
	if podContext == nil {
		podContext = &v1.PodSecurityContext{}
	}
	if own == nil {
		own = &v1.SecurityContext{}
	}
	if err := user(r, podContext, own, s); err != nil {
		return err
	}
	s.StrictGroups = strictGroups(podContext)
	for _, group := range podContext.SupplementalGroups {
		s.Groups = append(s.Groups, strconv.FormatInt(group, 10))
	}
	if podContext.FSGroup != nil {
		s.Groups = append(s.Groups, strconv.FormatInt(*podContext.FSGroup, 10))
	}
	s.Privileged = isTrue(own.Privileged)
	s.ReadOnlyRoot = isTrue(own.ReadOnlyRootFilesystem)
	s.NoNewPrivs = own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation
	if own.Capabilities != nil {
		for _, capability := range own.Capabilities.Add {
			s.AddCaps = append(s.AddCaps, string(capability))
		}
		for _, capability := range own.Capabilities.Drop {
			s.DropCaps = append(s.DropCaps, string(capability))
		}
	}
	s.UnmaskedProc = own.ProcMount != nil && *own.ProcMount == v1.UnmaskedProcMount
	s.SELinux = selinux(first(own.SELinuxOptions, podContext.SELinuxOptions))
	if profile := first(own.AppArmorProfile, podContext.AppArmorProfile); profile != nil {
		switch profile.Type {
		case v1.AppArmorProfileTypeUnconfined:
			s.AppArmor = "unconfined"
		case v1.AppArmorProfileTypeLocalhost:
			s.AppArmor = *profile.LocalhostProfile
		}
	}
	return b.seccomp(first(own.SeccompProfile, podContext.SeccompProfile), s)
}

func first[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

func isTrue(b *bool) bool { return b != nil && *b }

func (b *Builder) seccomp(profile *v1.SeccompProfile, s *runtime.ContainerSpec) error {
	switch {
	case profile == nil && b.SeccompDefault, profile != nil && profile.Type == v1.SeccompProfileTypeRuntimeDefault:
		return nil
	case profile == nil, profile.Type == v1.SeccompProfileTypeUnconfined:
		s.Seccomp = "unconfined"
		return nil
	}
	if profile.LocalhostProfile == nil || !filepath.IsLocal(*profile.LocalhostProfile) {
		return fmt.Errorf("seccomp profile of type %s needs a localhostProfile, a path below %s", profile.Type,
			filepath.Join(b.Root, "seccomp"))
	}
	data, err := os.ReadFile(filepath.Join(b.Root, "seccomp", *profile.LocalhostProfile))
	if err != nil {
		return fmt.Errorf("seccomp profile: %w", err)
	}
	s.Seccomp = string(data)
	return nil
}

// user returns the user that the container runs as; it is an error where runAsNonRoot forbids it.
func user(r *Request, pod *v1.PodSecurityContext, own *v1.SecurityContext, s *runtime.ContainerSpec) error {
	uid, gid := first(own.RunAsUser, pod.RunAsUser), first(own.RunAsGroup, pod.RunAsGroup)
	if uid != nil {
		s.User = strconv.FormatInt(*uid, 10)
	}
	if gid != nil {
		base := s.User
		if base == "" {
			base, _, _ = strings.Cut(r.Image.User, ":")
		}
		if base == "" {
			base = "0"
		}
		s.User = base + ":" + strconv.FormatInt(*gid, 10)
	}
	if !isTrue(first(own.RunAsNonRoot, pod.RunAsNonRoot)) {
		return nil
	}
	if uid != nil {
		if *uid == 0 {
			return fmt.Errorf("container's runAsUser breaks non-root policy (pod: %q, container: %s)",
				r.Pod.Namespace+"/"+r.Pod.Name, s.Name)
		}
		return nil
	}
	name, _, _ := strings.Cut(r.Image.User, ":")
	if name == "" || name == "0" || name == "root" {
		return fmt.Errorf("container has runAsNonRoot and image will run as root (pod: %q, container: %s)",
			r.Pod.Namespace+"/"+r.Pod.Name, s.Name)
	}
	if !slices.ContainsFunc([]byte(name), func(c byte) bool { return c < '0' || c > '9' }) {
		return nil
	}
	return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root "+
		"(pod: %q, container: %s)", name, r.Pod.Namespace+"/"+r.Pod.Name, s.Name)
}

func selinux(options *v1.SELinuxOptions) []string {
	if options == nil {
		return nil
	}
	var labels []string
	for _, part := range [][2]string{{"user", options.User}, {"role", options.Role}, {"type", options.Type},
		{"level", options.Level}} {
		if part[1] != "" {
			labels = append(labels, part[0]+":"+part[1])
		}
	}
	return labels
}
