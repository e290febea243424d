package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

type statusCase struct {
	name        string
	before, now func(p *corev1.Pod) // optional
	want        texts
}

func checkStatuses(t *testing.T, rules StatusRules, at string, cases []statusCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			old := minimal()
			if c.before != nil {
				c.before(old)
			}
			p := old.DeepCopy()
			if c.now != nil {
				c.now(p)
			}
			sameTexts(t, errorsBelow(at, rules.Validate(p, old)), c.want)
			sameTexts(t, errorsBelow(at, rules.Validate(old.DeepCopy(), old)), nil)
		})
	}
}

func TestStatusUpdate(t *testing.T) {
	type pod = *corev1.Pod
	conditions := func(list ...corev1.PodCondition) func(p pod) {
		return func(p pod) { p.Status.Conditions = list }
	}
	checkStatuses(t, StatusRules{}, "status.", []statusCase{
		{"nothing", nil, nil, nil},
		{"phase and conditions", nil, func(p pod) {
			p.Status.Phase = "Failed"
			conditions(corev1.PodCondition{Type: "Ready"}, corev1.PodCondition{Type: "a.b/C", ObservedGeneration: 2})(p)
		}, nil},
		{"bad condition", nil, conditions(corev1.PodCondition{Type: "A"}, corev1.PodCondition{Type: "B C"}),
			texts{`conditions[1].Type: Invalid value: "B C": name part must consist of…`}},
		{"generations", nil, func(p pod) {
			p.Status.ObservedGeneration = -1
			conditions(corev1.PodCondition{Type: "A", ObservedGeneration: -2})(p)
		}, texts{"conditions[0].observedGeneration: Invalid value: -2: must be a non-negative integer",
			"observedGeneration: Invalid value: -1: must be a non-negative integer"}},
		{"node", nil, func(p pod) { p.Spec.NodeName = "n" }, texts{"nodeName: Forbidden: may not be changed directly"}},
		{"class of service", func(p pod) { p.Status.QOSClass = "Burstable" },
			func(p pod) { p.Status.QOSClass = "Guaranteed" },
			texts{`qosClass: Invalid value: "Guaranteed": field is immutable`}},
		{"mirror annotation", nil, func(p pod) {
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			p.Spec.NodeName = "n"
		}, texts{"metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not add mirror pod annotation",
			"nodeName: Forbidden: may not be changed directly"}},
		{"nominated", nil, func(p pod) { p.Status.NominatedNodeName = "n" }, nil},
		{"nominated for nonsense", nil, func(p pod) { p.Status.NominatedNodeName = "N" },
			texts{`nominatedNodeName: Invalid value: "N": a lowercase RFC 1123 subdomain must…`}},
		{"nominated, though bound", func(p pod) { p.Spec.NodeName = "m" },
			func(p pod) { p.Status.NominatedNodeName = "n" },
			texts{"nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"}},
		{"no longer nominated", func(p pod) { p.Spec.NodeName, p.Status.NominatedNodeName = "m", "n" },
			func(p pod) { p.Status.NominatedNodeName = "" }, nil},
	})
	checkStatuses(t, StatusRules{NominateBound: true}, "status.", []statusCase{
		{"nominated, though bound", func(p pod) { p.Spec.NodeName = "m" },
			func(p pod) { p.Status.NominatedNodeName = "n" }, nil}})
}

// TestStatusAddresses: one of each family, those that were there as they are.
func TestStatusAddresses(t *testing.T) {
	pod := func(ips ...string) func(p *corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.PodIPs = nil
			for _, ip := range ips {
				p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
			}
		}
	}
	host := func(first string, ips ...string) func(p *corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.HostIP, p.Status.HostIPs = first, nil
			for _, ip := range ips {
				p.Status.HostIPs = append(p.Status.HostIPs, corev1.HostIP{IP: ip})
			}
		}
	}
	const more = "may specify no more than one IP for each IP family"
	checkStatuses(t, StatusRules{}, "status.", []statusCase{
		{"dual stack", nil, pod("10.0.0.1", "fd00::1"), nil},
		{"bad", nil, pod("10.0.0"), texts{`podIPs[0]: Invalid value: "10.0.0": must be a valid IP address…`}},
		{"two of a family", nil, pod("10.0.0.1", "10.0.0.2"),
			texts{`podIPs: Invalid value: [{"IP":"10.0.0.1"},{"IP":"10.0.0.2"}]: ` + more}},
		{"three", nil, pod("10.0.0.1", "fd00::1", "fd00::2"),
			texts{`podIPs: Invalid value: [{"IP":"10.0.0.1"},{"IP":"fd00::1"},{"IP":"fd00::2"}]: ` + more}},
		{"one of two bad", nil, pod("10.0.0.1", "x"),
			texts{`podIPs[1]: Invalid value: "x": must be a valid IP address…`,
				"podIPs: Internal error: failed to check for dual stack with error:invalid IP[1]: x",
				`podIPs: Invalid value: [{"IP":"10.0.0.1"},{"IP":"x"}]: ` + more}},
		{"zeros", nil, pod("010.0.0.1"), texts{`podIPs[0]: Invalid value: "010.0.0.1": must not have leading 0s`}},
		{"zeros that were there", pod("010.0.0.1"), pod("010.0.0.1", "fd00::1"), nil},
		{"host", nil, host("10.0.0.1", "10.0.0.1", "fd00::1"), nil},
		{"host of another address", nil, host("10.0.0.2", "10.0.0.1"),
			texts{"hostIPs[0].ip: Invalid value: \"10.0.0.1\": must be equal to `hostIP`"}},
		{"host of two", nil, host("10.0.0.1", "10.0.0.1", "10.0.0.2"),
			texts{`hostIPs: Invalid value: [{"IP":"10.0.0.1"},{"IP":"10.0.0.2"}]: ` + more}},
	})
}

// TestTerminatedContainers: one that ended runs again where a policy or a rule restarts it.
func TestTerminatedContainers(t *testing.T) {
	status := func(name string, code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
	}
	const refused = "state: Forbidden: may not be transitioned to non-terminated state"
	rule := func(action, op string, codes ...int32) []corev1.ContainerRestartRule {
		return []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleAction(action),
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
				Operator: corev1.ContainerRestartRuleOnExitCodesOperator(op), Values: codes}}}
	}
	for _, c := range []struct {
		name     string
		pod      corev1.RestartPolicy
		own      string
		rules    []corev1.ContainerRestartRule
		code     int32
		restarts bool
	}{
		{"always", "Always", "", nil, 0, true},
		{"on failure, failed", "OnFailure", "", nil, 1, true},
		{"on failure, succeeded", "OnFailure", "", nil, 0, false},
		{"never", "Never", "", nil, 1, false},
		{"always, but its own is never", "Always", "Never", nil, 1, false},
		{"never, but its own is on failure", "Never", "OnFailure", nil, 1, true},
		{"never, but its own is on failure, succeeded", "Never", "OnFailure", nil, 0, false},
		{"never, but its own is always", "Never", "Always", nil, 0, true},
		{"rule for its code", "Never", "Never", rule("Restart", "In", 1, 42), 42, true},
		{"rule for other codes", "Never", "Never", rule("Restart", "In", 1, 42), 2, false},
		{"rule against its code", "Never", "Never", rule("Restart", "NotIn", 42), 42, false},
		{"rule against other codes", "Never", "Never", rule("Restart", "NotIn", 42), 1, true},
		{"all are restarted", "Never", "Never", rule("RestartAllContainers", "In", 42), 1, true},
	} {
		for _, init := range []bool{false, true} {
			before := func(p *corev1.Pod) {
				p.Spec.RestartPolicy = c.pod
				ctr := named("x")
				if c.own != "" {
					ctr.RestartPolicy = new(corev1.ContainerRestartPolicy(c.own))
				}
				ctr.RestartPolicyRules = c.rules
				if init {
					p.Spec.InitContainers = []corev1.Container{ctr}
					p.Status.InitContainerStatuses = []corev1.ContainerStatus{status("x", c.code)}
				} else {
					p.Spec.Containers = []corev1.Container{ctr}
					p.Status.ContainerStatuses = []corev1.ContainerStatus{status("x", c.code)}
				}
			}
			now := func(p *corev1.Pod) {
				for _, list := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses,
					p.Status.InitContainerStatuses} {
					for i := range list {
						list[i].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
					}
				}
			}
			at, want := "status.containerStatuses[0].", texts{refused}
			if init {
				at = "status.initContainerStatuses[0]."
			}
			if c.restarts {
				want = nil
			}
			checkStatuses(t, StatusRules{}, at, []statusCase{{c.name, before, now, want}})
		}
	}
	gone := func(p *corev1.Pod) {
		p.Spec.RestartPolicy = "Never"
		p.Status.ContainerStatuses = []corev1.ContainerStatus{status("c", 0)}
	}
	debugged := func(p *corev1.Pod) { p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{status("e", 1)} }
	checkStatuses(t, StatusRules{}, "status.", []statusCase{
		{"status that goes", gone, func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }, nil},
		{"ephemeral container", debugged, func(p *corev1.Pod) {
			p.Status.EphemeralContainerStatuses[0].State = corev1.ContainerState{}
		}, texts{"ephemeralContainerStatuses[0]." + refused}},
	})
}

func TestStatusClaims(t *testing.T) {
	claims := func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "a", ResourceClaimTemplateName: new("t")},
			{Name: "b", ResourceClaimName: new("n")}}
	}
	with := func(list ...corev1.PodResourceClaimStatus) func(p *corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.ResourceClaimStatuses = list }
	}
	type status = corev1.PodResourceClaimStatus
	checkStatuses(t, StatusRules{}, "status.resourceClaimStatuses", []statusCase{
		{"good", claims, with(status{Name: "a", ResourceClaimName: new("x")}, status{Name: "b"}), nil},
		{"unknown", claims, with(status{Name: "c"}),
			texts{"[0].name: Invalid value: \"c\": must match the name of an entry in `spec.resourceClaims`"}},
		{"twice", claims, with(status{Name: "a"}, status{Name: "a"}), texts{`[1].name: Duplicate value: "a"`}},
		{"bad name", claims, with(status{Name: "a", ResourceClaimName: new("X")}),
			texts{`[0].resourceClaimName: Invalid value: "X": a lowercase RFC 1123 subdomain must…`}},
	})
}

func TestStatusUsers(t *testing.T) {
	as := func(uid, gid int64, groups ...int64) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{}, {User: &corev1.ContainerUser{
			Linux: &corev1.LinuxContainerUser{UID: uid, GID: gid, SupplementalGroups: groups}}}}
	}
	const ids = "must be between 0 and 2147483647, inclusive"
	checkStatuses(t, StatusRules{}, "status.", []statusCase{
		{"good", nil, func(p *corev1.Pod) { p.Status.ContainerStatuses = as(0, 0, 1) }, nil},
		{"no Linux", nil, func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{User: &corev1.ContainerUser{}}}
		}, nil},
		{"bad", nil, func(p *corev1.Pod) { p.Status.ContainerStatuses = as(-1, -2, 1, -3) }, texts{
			"containerStatuses[1].user.linux.uid: Invalid value: -1: " + ids,
			"containerStatuses[1].user.linux.gid: Invalid value: -2: " + ids,
			"containerStatuses[1].user.linux.supplementalGroups[1]: Invalid value: -3: " + ids}},
		{"of an init container", nil, func(p *corev1.Pod) { p.Status.InitContainerStatuses = as(-1, 0) },
			texts{"initContainerStatuses[1].user.linux.uid: Invalid value: -1: " + ids}},
		{"of an ephemeral container", nil, func(p *corev1.Pod) { p.Status.EphemeralContainerStatuses = as(0, -1) },
			texts{"ephemeralContainerStatuses[1].user.linux.gid: Invalid value: -1: " + ids}},
		{"on Windows", func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: "windows"} },
			func(p *corev1.Pod) { p.Status.ContainerStatuses = as(-1, 0) },
			texts{"containerStatuses[1].user.linux: Forbidden: cannot be set for a windows pod"}},
	})
}
