package node

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

const sysctlDocs = "https://kubernetes.io/docs/tasks/administer-cluster/sysctl-cluster/"

func hardeningCases() []suite.Case {
	return since("0.3", []suite.Case{
		{ID: "node/non-root-refused", Run: nonRootRefused, Reference: security,
			Requirement: "A container that must not run as root and would MUST not be started, and say why."},
		{ID: "node/user-of-container", Run: userOfContainer, Reference: security,
			Requirement: "The user and group of a container MUST win over its pod's."},
		{ID: "node/strict-groups", Run: strictGroups, Reference: security + "#supplementalgroupspolicy",
			Requirement: "With the strict policy a container MUST have the groups of its pod only and its status tell them, " +
				"and a " +
				"node that can't MUST refuse the pod."},
		{ID: "node/fs-group", Run: fsGroup, Reference: security,
			Requirement: "Volumes of the pod MUST belong to its fsGroup and be writable by it."},
		{ID: "node/capabilities", Run: capabilities, Reference: security + "#set-capabilities-for-a-container",
			Requirement: "A container MUST have the capabilities that are added, and lack those that are dropped."},
		{ID: "node/no-new-privileges", Run: noNewPrivileges, Reference: security,
			Requirement: "allowPrivilegeEscalation false MUST set no_new_privs on the container's process."},
		{ID: "node/seccomp", Run: seccomp, Reference: "https://kubernetes.io/docs/tutorials/security/seccomp/",
			Requirement: "The profile RuntimeDefault MUST filter system calls, and Unconfined MUST not."},
		{ID: "node/user-namespace", Run: userNamespace,
			Reference: "https://kubernetes.io/docs/concepts/workloads/pods/user-namespaces/",
			Requirement: "A pod without the users of the host MUST have others where the node says that it can, and " +
				"else stay pending and say why."},
		{ID: "node/app-armor", Run: appArmor, Reference: "https://kubernetes.io/docs/tutorials/security/apparmor/",
			Requirement: "The profile RuntimeDefault of AppArmor MUST confine a container, or its pod be refused " +
				"where the node has no AppArmor, and Unconfined MUST run on every node."},
		{ID: "node/seccomp-missing", Run: seccompMissing, Reference: "https://kubernetes.io/docs/tutorials/security/seccomp/",
			Requirement: "A container whose Localhost profile is missing MUST not be started."},
		{ID: "node/sysctl", Run: sysctlSafe, Reference: sysctlDocs,
			Requirement: "A safe sysctl MUST be set in the pod's namespaces."},
		{ID: "node/sysctl-forbidden", Run: sysctlForbidden, Reference: sysctlDocs,
			Requirement: "A pod with an unsafe sysctl that the node doesn't allow MUST fail with SysctlForbidden."},
		{ID: "node/host-network", Run: hostNetwork, Reference: "https://kubernetes.io/docs/concepts/workloads/pods/",
			Requirement: "A pod of the host's network MUST have the node's address."},
		{ID: "node/host-pid", Run: hostPID, Reference: "https://kubernetes.io/docs/concepts/workloads/pods/",
			Requirement: "A pod of the host's process namespace MUST see the processes of the node, and another MUST see its " +
				"own."},
		{ID: "node/shared-processes", Run: sharedProcesses,
			Reference:   "https://kubernetes.io/docs/tasks/configure-pod-container/share-process-namespace/",
			Requirement: "Containers that share the process namespace MUST see each other's processes."},
	})
}

func nonRootRefused(ctx context.Context, t *suite.T) {
	p := t.Pod("rooted", "exit", "0")
	p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), RunAsUser: nil}
	t.CreatePod(ctx, p)
	waiting := suite.WaitFor(ctx, t, "the container waiting", t.GetPod("rooted"), Satisfy(func(p *corev1.Pod) bool {
		state := container(p, "main").State.Waiting
		return state != nil && state.Reason == "CreateContainerConfigError"
	}))
	t.Expect(container(waiting, "main").State.Waiting.Message).To(ContainSubstring("root"))
}

func userOfContainer(ctx context.Context, t *suite.T) {
	p := t.Pod("users", "whoami")
	p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](1000)}
	p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](2000),
		RunAsGroup: ptr.To[int64](3000)}
	t.Expect(outputOf(ctx, t, p)[0]).To(ContainSubstring("uid=2000 gid=3000"))
}

func strictGroups(ctx context.Context, t *suite.T) {
	node := mustNodes(ctx, t)[0]
	p := on(t.Pod("strict", "whoami", "then", "sleep", "forever"), node.Name)
	p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](2000),
		SupplementalGroups: []int64{3000}, SupplementalGroupsPolicy: ptr.To(corev1.SupplementalGroupsPolicyStrict)}
	t.CreatePod(ctx, p)
	if f := node.Status.Features; f == nil || f.SupplementalGroupsPolicy == nil || !*f.SupplementalGroupsPolicy {
		refused := ended(ctx, t, "strict", corev1.PodFailed)
		t.Expect(refused.Status.Reason).To(Equal("SupplementalGroupsPolicyNotSupported"))
		return
	}
	user := container(running(ctx, t, "strict"), "main").User
	t.Expect(user).NotTo(BeNil())
	t.Expect(user.Linux).NotTo(BeNil())
	t.Expect(user.Linux.UID).To(BeEquivalentTo(1000))
	t.Expect(user.Linux.GID).To(BeEquivalentTo(2000))
	t.Expect(user.Linux.SupplementalGroups).To(ConsistOf(BeEquivalentTo(2000), BeEquivalentTo(3000)))
	waitLog(ctx, t, "strict", "uid=1000 gid=2000")
}

func fsGroup(ctx context.Context, t *suite.T) {
	p := t.Pod("grouped", "write", "/shared/file", "x", "then", "stat", "/shared", "/shared/file")
	p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000), FSGroup: ptr.To[int64](4321)}
	shared(p, "/shared")
	lines := outputOf(ctx, t, p)
	t.Expect(lines[0]).To(MatchRegexp(`^/shared dir 2\d\d\d \d+ 4321 `), "the set-group-ID bit hands the group on")
	t.Expect(lines[1]).To(MatchRegexp(`^/shared/file file \d+ 1000 4321 `))
}

// statusOf runs a container to its end and returns the field of its process's status.
func statusOf(ctx context.Context, t *suite.T, name, field string, context *corev1.SecurityContext) string {
	p := t.Pod(name, "cat", "/proc/self/status")
	p.Spec.Containers[0].SecurityContext = context
	out := strings.Join(outputOf(ctx, t, p), "\n")
	found := regexp.MustCompile(`(?m)^` + field + `:\s*(\S+)`).FindStringSubmatch(out)
	t.Expect(found).To(HaveLen(2), field)
	return found[1]
}

func capabilities(ctx context.Context, t *suite.T) {
	const netAdmin, chown = 12, 0
	has := func(text string, bit int) bool {
		set, err := strconv.ParseUint(text, 16, 64)
		t.Must(err, "read the capabilities")
		return set&(1<<bit) != 0
	}
	plain := statusOf(ctx, t, "plain", "CapEff", nil)
	t.Expect(has(plain, chown)).To(BeTrue())
	t.Expect(has(plain, netAdmin)).To(BeFalse())
	changed := statusOf(ctx, t, "changed", "CapEff", &corev1.SecurityContext{Capabilities: &corev1.Capabilities{
		Add: []corev1.Capability{"NET_ADMIN"}, Drop: []corev1.Capability{"CHOWN"}}})
	t.Expect(has(changed, netAdmin)).To(BeTrue())
	t.Expect(has(changed, chown)).To(BeFalse())
	none := statusOf(ctx, t, "none", "CapEff", &corev1.SecurityContext{Capabilities: &corev1.Capabilities{
		Drop: []corev1.Capability{"ALL"}}})
	t.Expect(strings.Trim(none, "0")).To(BeEmpty())
}

func noNewPrivileges(ctx context.Context, t *suite.T) {
	t.Expect(statusOf(ctx, t, "free", "NoNewPrivs", nil)).To(Equal("0"))
	t.Expect(statusOf(ctx, t, "bound", "NoNewPrivs",
		&corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false)})).To(Equal("1"))
}

func seccomp(ctx context.Context, t *suite.T) {
	profile := func(kind corev1.SeccompProfileType) *corev1.SecurityContext {
		return &corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: kind}}
	}
	t.Expect(statusOf(ctx, t, "filtered", "Seccomp", profile(corev1.SeccompProfileTypeRuntimeDefault))).To(Equal("2"))
	t.Expect(statusOf(ctx, t, "free", "Seccomp", profile(corev1.SeccompProfileTypeUnconfined))).To(Equal("0"))
}

func userNamespace(ctx context.Context, t *suite.T) {
	node := mustNodes(ctx, t)[0]
	p := on(t.Pod("mapped", "cat", "/proc/self/uid_map"), node.Name)
	p.Spec.HostUsers = ptr.To(false)
	if !slices.ContainsFunc(node.Status.RuntimeHandlers, func(h corev1.NodeRuntimeHandler) bool {
		return h.Name == "" && h.Features != nil && h.Features.UserNamespaces != nil && *h.Features.UserNamespaces
	}) {
		t.CreatePod(ctx, p)
		suite.WaitFor(ctx, t, "an event that says so", messagesOf(t, "mapped", "FailedCreatePodSandBox"),
			ContainElement(ContainSubstring("runtime does not support user namespaces")))
		waiting, err := t.GetPod("mapped")(ctx)
		t.Must(err, "read the pod")
		t.Expect(waiting.Status.Phase).To(Equal(corev1.PodPending))
		return
	}
	first := strings.Fields(outputOf(ctx, t, p)[0])
	t.Expect(first).To(HaveLen(3))
	t.Expect(first[0]).To(Equal("0"))
	t.Expect(first[1]).NotTo(Equal("0"), "root of the pod is not root of the node")
}

func appArmor(ctx context.Context, t *suite.T) {
	pod := func(name string, kind corev1.AppArmorProfileType, args ...string) *corev1.Pod {
		p := t.Pod(name, args...)
		p.Spec.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: kind}}
		return p
	}
	const enabled = "/sys/module/apparmor/parameters/enabled"
	t.CreatePod(ctx, pod("free", corev1.AppArmorProfileTypeUnconfined, "sleep", "forever"))
	node := running(ctx, t, "free").Spec.NodeName
	out, _, err := execute(ctx, t, "free", "", "testimage", "cat", enabled)
	if err != nil || strings.TrimSpace(out) != "Y" { // the kernel has none
		t.CreatePod(ctx, on(pod("confined", corev1.AppArmorProfileTypeRuntimeDefault, "exit", "0"), node))
		refused := ended(ctx, t, "confined", corev1.PodFailed)
		t.Expect(refused.Status.Reason).To(Equal("AppArmor"))
		t.Expect(refused.Status.Message).To(
			ContainSubstring("Cannot enforce AppArmor: AppArmor is not enabled on the host"))
		return
	}
	const current = "/proc/self/attr/current"
	t.Expect(outputOf(ctx, t, pod("plain", corev1.AppArmorProfileTypeUnconfined, "cat", current))[0]).To(
		HavePrefix("unconfined"))
	confined := on(pod("confined", corev1.AppArmorProfileTypeRuntimeDefault, "cat", current), node)
	t.Expect(outputOf(ctx, t, confined)[0]).To(HaveSuffix(" (enforce)"))
}

func seccompMissing(ctx context.Context, t *suite.T) {
	p := t.Pod("unprofiled", "exit", "0")
	p.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{
		Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr.To("no/such/profile.json")}}
	t.CreatePod(ctx, p)
	suite.WaitFor(ctx, t, "the container waiting", t.GetPod("unprofiled"), Satisfy(func(p *corev1.Pod) bool {
		state := container(p, "main").State.Waiting
		return state != nil && strings.HasPrefix(state.Reason, "Create") && state.Message != ""
	}))
}

func sysctlSafe(ctx context.Context, t *suite.T) {
	p := t.Pod("tuned", "cat", "/proc/sys/net/ipv4/ip_unprivileged_port_start")
	p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{
		{Name: "net.ipv4.ip_unprivileged_port_start", Value: "321"}}}
	t.Expect(outputOf(ctx, t, p)).To(Equal([]string{"321"}))
}

func sysctlForbidden(ctx context.Context, t *suite.T) {
	p := t.Pod("unsafe", "exit", "0")
	p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "65536"}}}
	t.CreatePod(ctx, p)
	t.Expect(ended(ctx, t, "unsafe", corev1.PodFailed).Status.Reason).To(Equal("SysctlForbidden"))
}

func hostNetwork(ctx context.Context, t *suite.T) {
	p := t.Pod("outside", "sleep", "forever")
	p.Spec.HostNetwork = true
	t.CreatePod(ctx, p)
	status := running(ctx, t, "outside").Status
	t.Expect(status.PodIP).To(Equal(status.HostIP))
	t.Expect(status.HostIP).NotTo(BeEmpty())
}

func hostPID(ctx context.Context, t *suite.T) {
	own := outputOf(ctx, t, t.Pod("own", "whoami"))
	t.Expect(own[0]).To(ContainSubstring("pid=1"), "the first process of its container")
	t.Expect(strings.HasSuffix(own[0], "pid=1")).To(BeTrue())
	p := t.Pod("host", "whoami", "then", "cat", "/proc/1/comm")
	p.Spec.HostPID = true
	lines := outputOf(ctx, t, p)
	t.Expect(strings.HasSuffix(lines[0], " pid=1")).To(BeFalse())
	t.Expect(lines[1]).NotTo(Equal("testimage"), "the first process is the node's")
}

func sharedProcesses(ctx context.Context, t *suite.T) {
	p := t.Pod("sharing", "whoami", "then", "ls", "/proc")
	p.Spec.ShareProcessNamespace = ptr.To(true)
	other := *p.Spec.Containers[0].DeepCopy()
	other.Name, other.Args = "other", []string{"sleep", "15s"}
	p.Spec.Containers = []corev1.Container{other, p.Spec.Containers[0]} // started in this order
	lines := outputOf(ctx, t, p)
	t.Expect(strings.HasSuffix(lines[0], " pid=1")).To(BeFalse(), "the first process is the pod's")
	processes := 0
	for _, line := range lines[1:] {
		if regexp.MustCompile(`^\d+/$`).MatchString(line) {
			processes++
		}
	}
	t.Expect(processes).To(BeNumerically(">=", 3), "the pod's first process, and one of each container")
}
