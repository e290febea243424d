package podspec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPodSecurityContext(t *testing.T) {
	with := func(change func(sc *corev1.PodSecurityContext)) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { change(s.SecurityContext) }
	}
	const ids = "must be between 0 and 2147483647, inclusive"
	type sc = *corev1.PodSecurityContext
	checkSpecs(t, "spec.securityContext.", []specCase{
		{"none", func(s *corev1.PodSpec) { s.SecurityContext = nil }, nil},
		{"ids", with(func(sc sc) {
			sc.RunAsUser, sc.RunAsGroup, sc.FSGroup = new(int64(0)), new(int64(1)), new(int64(2147483647))
			sc.SupplementalGroups = []int64{0, 1}
		}), nil},
		{"bad ids", with(func(sc sc) {
			sc.RunAsUser, sc.RunAsGroup, sc.FSGroup = new(int64(-1)), new(int64(-2)), new(int64(2147483648))
			sc.SupplementalGroups = []int64{0, -3}
		}), texts{"fsGroup: Invalid value: 2147483648: " + ids, "runAsUser: Invalid value: -1: " + ids,
			"runAsGroup: Invalid value: -2: " + ids, "supplementalGroups[1]: Invalid value: -3: " + ids}},
		{"processes of the host", func(s *corev1.PodSpec) { s.HostPID, s.ShareProcessNamespace = true, new(true) },
			texts{"shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled"}},
		{"processes not shared", func(s *corev1.PodSpec) { s.HostPID, s.ShareProcessNamespace = true, new(false) },
			nil},
		{"policies", with(func(sc sc) {
			sc.FSGroupChangePolicy = new(corev1.FSGroupChangeOnRootMismatch)
			sc.SupplementalGroupsPolicy = new(corev1.SupplementalGroupsPolicyStrict)
			sc.SELinuxChangePolicy = new(corev1.SELinuxChangePolicyRecursive)
		}), nil},
		{"bad policies", with(func(sc sc) {
			sc.FSGroupChangePolicy = new(corev1.PodFSGroupChangePolicy("a"))
			sc.SupplementalGroupsPolicy = new(corev1.SupplementalGroupsPolicy("b"))
		}), texts{`fsGroupChangePolicy: Unsupported value: "a": supported values: "Always", "OnRootMismatch"`,
			`supplementalGroupsPolicy: Unsupported value: "b": supported values: "Merge", "Strict"`}},
		{"labels by mounting",
			with(func(sc sc) { sc.SELinuxChangePolicy = new(corev1.SELinuxChangePolicyMountOption) }),
			texts{`seLinuxChangePolicy: Unsupported value: "MountOption": supported values: "Recursive"`}},
		{"seccomp", with(func(sc sc) { sc.SeccompProfile = &corev1.SeccompProfile{} }),
			texts{"seccompProfile.type: Required value: type is required when seccompProfile is set"}},
		{"AppArmor", with(func(sc sc) { sc.AppArmorProfile = &corev1.AppArmorProfile{} }),
			texts{"appArmorProfile.type: Required value: type is required when appArmorProfile is set"}},
		{"Windows", with(func(sc sc) {
			sc.WindowsOptions = &corev1.WindowsSecurityContextOptions{RunAsUserName: new("")}
		}), texts{`windowsOptions.runAsUserName: Invalid value: "": runAsUserName cannot be an empty string`}},
	})
}

func TestSysctls(t *testing.T) {
	with := func(names ...string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			for _, name := range names {
				s.SecurityContext.Sysctls = append(s.SecurityContext.Sysctls, corev1.Sysctl{Name: name, Value: "1"})
			}
		}
	}
	const form = "must have at most 253 characters and match regex " +
		`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`
	cases := []specCase{
		{"good", with("net.ipv4.tcp_rmem", "kernel/shm_rmid_forced", "a-b.c_d/1"), nil},
		{"none", with(""), texts{"[0].name: Required value"}},
		{"twice", with("a", "b", "a"), texts{`[2].name: Duplicate value: "a"`}},
		{"long", with(strings.Repeat("a", 253)), nil},
		{"of the host's network", func(s *corev1.PodSpec) {
			s.HostNetwork = true
			with("net.ipv4.x", "kernel.shmmax")(s)
		}, texts{`[0].name: Invalid value: "net.ipv4.x": may not be specified when 'hostNetwork' is true`}},
		{"of the host's IPC", func(s *corev1.PodSpec) {
			s.HostIPC = true
			with("net.ipv4.x", "kernel.shmmax")(s)
		}, texts{`[1].name: Invalid value: "kernel.shmmax": may not be specified when 'hostIPC' is true`}},
	}
	for _, name := range texts([]string{strings.Repeat("a", 254), "A", "a..b", ".a", "a.", "-a", "a_.b", "ä", "a b"}) {
		cases = append(cases, specCase{"bad " + name, with(name),
			texts{`[0].name: Invalid value: "` + name + `": ` + form}})
	}
	checkSpecs(t, "spec.securityContext.sysctls", cases)
}

func TestSecurityContext(t *testing.T) {
	type sc = *corev1.SecurityContext
	with := func(change func(sc sc)) func(*corev1.PodSpec) {
		return inContainer(func(c *corev1.Container) {
			c.SecurityContext = &corev1.SecurityContext{}
			change(c.SecurityContext)
		})
	}
	const users = "`hostUsers` must be false to use `Unmasked`"
	checkSpecs(t, "spec.containers[0].securityContext", []specCase{
		{"privileged", with(func(sc sc) { sc.Privileged = new(true) }),
			texts{".privileged: Forbidden: disallowed by cluster policy"}},
		{"not privileged", with(func(sc sc) { sc.Privileged, sc.AllowPrivilegeEscalation = new(false), new(false) }),
			nil},
		{"user", with(func(sc sc) { sc.RunAsUser, sc.RunAsGroup = new(int64(-1)), new(int64(-2)) }),
			texts{".runAsUser: Invalid value: -1: must be between 0…",
				".runAsGroup: Invalid value: -2: must be between 0…"}},
		{"processes", with(func(sc sc) { sc.ProcMount = new(corev1.DefaultProcMount) }), nil},
		{"unknown processes", with(func(sc sc) { sc.ProcMount = new(corev1.ProcMountType("None")) }),
			texts{`.procMount: Unsupported value: "None": supported values: "Default", "Unmasked"`}},
		{"all processes", with(func(sc sc) { sc.ProcMount = new(corev1.UnmaskedProcMount) }),
			texts{`.procMount: Invalid value: "Unmasked": ` + users}},
		{"all processes, users of the host", func(s *corev1.PodSpec) {
			s.HostUsers = new(true)
			with(func(sc sc) { sc.ProcMount = new(corev1.UnmaskedProcMount) })(s)
		}, texts{`.procMount: Invalid value: "Unmasked": ` + users}},
		{"all processes, users of its own", func(s *corev1.PodSpec) {
			s.HostUsers = new(false)
			with(func(sc sc) { sc.ProcMount = new(corev1.UnmaskedProcMount) })(s)
		}, nil},
		{"capability", with(func(sc sc) {
			sc.AllowPrivilegeEscalation = new(false)
			sc.Capabilities = &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN", "CAP_SYS_ADMIN"}}
		}), texts{`: Invalid value: {"Capabilities":{"Add":["SYS_ADMIN","CAP_SYS_ADMIN"],"Drop":null},…`}},
		{"capability with escalation", with(func(sc sc) {
			sc.AllowPrivilegeEscalation = new(true)
			sc.Capabilities = &corev1.Capabilities{Add: []corev1.Capability{"CAP_SYS_ADMIN"}}
		}), nil},
		{"seccomp", with(func(sc sc) { sc.SeccompProfile = &corev1.SeccompProfile{Type: "A"} }), texts{
			`.seccompProfile.type: Unsupported value: "A": supported values: "Localhost", "RuntimeDefault", "Unconfined"`}},
		{"AppArmor", with(func(sc sc) { sc.AppArmorProfile = appArmorOf("A", nil) }), texts{
			`.appArmorProfile.type: Unsupported value: "A": supported values: "Localhost", "RuntimeDefault", "Unconfined"`}},
		{"Windows", with(func(sc sc) {
			sc.WindowsOptions = &corev1.WindowsSecurityContextOptions{GMSACredentialSpec: new("")}
		}), texts{`.windowsOptions.gmsaCredentialSpec: Invalid value: "": gmsaCredentialSpec cannot be an empty string`}},
	})
	p := minimal()
	with(func(sc sc) { sc.Privileged, sc.AllowPrivilegeEscalation = new(true), new(false) })(&p.Spec)
	errs := Rules{Privileged: true}.ValidateCreate(p)
	if len(errs) != 1 || errs[0].Detail != "cannot set `allowPrivilegeEscalation` to false and `privileged` to true" {
		t.Errorf("privileged without escalation: %v", errs)
	}
}

func TestProfiles(t *testing.T) {
	long, longer := strings.Repeat("p", 4095), strings.Repeat("p", 4096)
	seccomp := func(kind corev1.SeccompProfileType, local *string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: kind, LocalhostProfile: local}
		}
	}
	appArmor := func(kind corev1.AppArmorProfileType, local *string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.SecurityContext.AppArmorProfile = appArmorOf(kind, local) }
	}
	checkSpecs(t, "spec.securityContext.seccompProfile.", []specCase{
		{"default", seccomp("RuntimeDefault", nil), nil},
		{"local", seccomp("Localhost", new("a/b.json")), nil},
		{"local without a name", seccomp("Localhost", nil),
			texts{"localhostProfile: Required value: must be set when seccomp type is Localhost"}},
		{"absolute", seccomp("Localhost", new("/a")),
			texts{`localhostProfile: Invalid value: "/a": must be a relative path`}},
		{"upwards", seccomp("Localhost", new("../a")),
			texts{`localhostProfile: Invalid value: "../a": must not contain '..'`}},
		{
			"default with a name",
			seccomp("RuntimeDefault", new("a")),
			texts{
				`localhostProfile: Invalid value: {"Type":"RuntimeDefault","LocalhostProfile":"a"}: can only be set when seccomp type is Localhost`,
			},
		},
	})
	checkSpecs(t, "spec.securityContext.appArmorProfile.localhostProfile", []specCase{
		{"default", appArmor("RuntimeDefault", nil), nil},
		{"none", appArmor("Unconfined", nil), nil},
		{"local", appArmor("Localhost", &long), nil},
		{"local without a name", appArmor("Localhost", nil),
			texts{": Required value: must be set when AppArmor type is Localhost"}},
		{"local of no name", appArmor("Localhost", new("")),
			texts{": Required value: must be set when AppArmor type is Localhost"}},
		{"padded", appArmor("Localhost", new("a ")),
			texts{`: Invalid value: "a ": must not be padded with whitespace`}},
		{"long", appArmor("Localhost", &longer), texts{": Too long: may not be more than 4095 bytes"}},
		{"none with a name", appArmor("Unconfined", new("a")),
			texts{`: Invalid value: "a": can only be set when AppArmor type is Localhost`}},
	})
}

// TestHostUsers: a pod with users of its own shares nothing else with its host.
func TestHostUsers(t *testing.T) {
	mapped := func(change func(s *corev1.PodSpec)) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.HostUsers = new(false)
			change(s)
		}
	}
	const msg = ": Forbidden: when `hostUsers` is false"
	checkSpecs(t, "spec.", []specCase{
		{"good", mapped(func(*corev1.PodSpec) {}), nil},
		{"all of the host", func(s *corev1.PodSpec) {
			s.HostUsers, s.HostNetwork, s.HostPID, s.HostIPC = new(true), true, true, true
		}, nil},
		{"network", mapped(func(s *corev1.PodSpec) { s.HostNetwork = true }), texts{"hostNetwork" + msg}},
		{"processes and IPC", mapped(func(s *corev1.PodSpec) { s.HostPID, s.HostIPC = true, true }),
			texts{"HostPID" + msg, "HostIPC" + msg}},
		{"devices", mapped(withMounts(nil, corev1.VolumeDevice{Name: "c", DevicePath: "/a"})),
			texts{"containers[0].volumeDevices" + msg}},
		{"devices of an init container", mapped(func(s *corev1.PodSpec) {
			withMounts(nil)(s)
			withInit(false,
				func(c *corev1.Container) { c.VolumeDevices = []corev1.VolumeDevice{{Name: "c", DevicePath: "/a"}} })(s)
		}), texts{"initContainers[0].volumeDevices" + msg}},
	})
}

// TestSELinuxPolicyThatWasThere: where there was a choice, the one that is off may be chosen.
func TestSELinuxPolicyThatWasThere(t *testing.T) {
	old := minimal()
	old.Spec.SecurityContext.SELinuxChangePolicy = new(corev1.SELinuxChangePolicyMountOption)
	sameTexts(t, errorsBelow("", Rules{}.ValidateUpdate(old.DeepCopy(), old)), nil)
	other := template(old)
	other.Spec.SecurityContext.SELinuxChangePolicy = new(corev1.PodSELinuxChangePolicy("Other"))
	sameTexts(
		t,
		errorsBelow("", Rules{}.ValidateTemplate(other, template(old), nil)),
		texts{
			`spec.securityContext.seLinuxChangePolicy: Unsupported value: "Other": supported values: "MountOption", "Recursive"`,
		},
	)
}
