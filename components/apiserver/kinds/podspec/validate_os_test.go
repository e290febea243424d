package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestOS: a pod for one operating system has nothing that only another has; without one it is not known.
func TestOS(t *testing.T) {
	on := func(os corev1.OSName, change func(s *corev1.PodSpec)) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			if os != "any" {
				s.OS = &corev1.PodOS{Name: os}
			}
			change(s)
		}
	}
	nothing := func(*corev1.PodSpec) {}
	windows := func(s *corev1.PodSpec) {
		s.SecurityContext.WindowsOptions = &corev1.WindowsSecurityContextOptions{RunAsUserName: new("u")}
		s.Containers[0].SecurityContext = &corev1.SecurityContext{WindowsOptions: s.SecurityContext.WindowsOptions}
		s.InitContainers = []corev1.Container{named("i")}
		s.InitContainers[0].SecurityContext = s.Containers[0].SecurityContext
	}
	linux := func(s *corev1.PodSpec) {
		s.HostUsers, s.HostPID, s.HostIPC, s.ShareProcessNamespace = new(true), true, true, new(false)
		s.SecurityContext = &corev1.PodSecurityContext{
			AppArmorProfile: appArmorOf("Unconfined", nil), SELinuxOptions: &corev1.SELinuxOptions{},
			SeccompProfile: &corev1.SeccompProfile{Type: "Unconfined"}, FSGroup: new(int64(1)),
			FSGroupChangePolicy: new(corev1.FSGroupChangeAlways), Sysctls: []corev1.Sysctl{{Name: "vm.x", Value: "1"}},
			RunAsUser: new(int64(1)), RunAsGroup: new(int64(1)), SupplementalGroups: []int64{1},
			SupplementalGroupsPolicy: new(corev1.SupplementalGroupsPolicyMerge),
			SELinuxChangePolicy:      new(corev1.SELinuxChangePolicyRecursive)}
		s.Containers[0].SecurityContext = &corev1.SecurityContext{
			AppArmorProfile: appArmorOf("Unconfined", nil), SELinuxOptions: &corev1.SELinuxOptions{},
			SeccompProfile: &corev1.SeccompProfile{Type: "Unconfined"}, Capabilities: &corev1.Capabilities{},
			ReadOnlyRootFilesystem: new(true), Privileged: new(false), AllowPrivilegeEscalation: new(true),
			ProcMount: new(corev1.DefaultProcMount), RunAsUser: new(int64(1)), RunAsGroup: new(int64(1))}
	}
	const onLinux = ".windowsOptions: Forbidden: windows options cannot be set for a linux pod"
	var onWindows texts
	for _, name := range []string{"securityContext.appArmorProfile", "securityContext.seLinuxOptions", "hostUsers",
		"hostPID",
		"hostIPC", "securityContext.seccompProfile", "securityContext.fsGroup", "securityContext.fsGroupChangePolicy",
		"securityContext.sysctls", "shareProcessNamespace", "securityContext.runAsUser", "securityContext.runAsGroup",
		"securityContext.supplementalGroups", "securityContext.supplementalGroupsPolicy",
		"securityContext.seLinuxChangePolicy"} {
		onWindows = append(onWindows, name+": Forbidden: cannot be set for a windows pod")
	}
	for _, name := range []string{"appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities",
		"readOnlyRootFilesystem", "privileged", "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"} {
		onWindows = append(onWindows,
			"containers[0].securityContext."+name+": Forbidden: cannot be set for a windows pod")
	}
	checkSpecs(t, "spec.", []specCase{
		{"linux", on("linux", linux), nil},
		{"windows", on("windows", windows), nil},
		{"windows without a security context", on("windows", func(s *corev1.PodSpec) { s.SecurityContext = nil }), nil},
		{"none", on("any", linux), nil},
		{"no name", on("", nothing), texts{"os.name: Required value"}},
		{"another", on("plan9", nothing),
			texts{`os: Unsupported value: "plan9": supported values: "linux", "windows"`}},
		{"windows on linux", on("linux", windows), texts{"securityContext" + onLinux,
			"initContainers[0].securityContext" + onLinux, "containers[0].securityContext" + onLinux}},
		{"linux on windows", on("windows", linux), onWindows},
		{"host network on windows", on("windows", func(s *corev1.PodSpec) { s.HostNetwork = true }), nil},
		{"resources on windows", on("windows", func(s *corev1.PodSpec) {
			s.Resources = &corev1.ResourceRequirements{Requests: amounts("cpu", "1")}
		}), texts{"resources: Forbidden: may not be set for a windows pod"}},
	})
}
