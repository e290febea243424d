package podspec

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

const notNegative = "must be a non-negative integer"

// StatusRules check changes through /status.
type StatusRules struct {
	// NominateBound lets pods that have a node be nominated for others.
	NominateBound bool
}

// Validate checks a change.
func (r StatusRules) Validate(new, old *corev1.Pod) field.ErrorList {
	path, is, was := field.NewPath("status"), &new.Status, &old.Status
	errs := append(keptAnnotations(new, oldPodState(old)),
		validateConditions(is.Conditions, path.Child("conditions"))...)
	if new.Spec.NodeName != old.Spec.NodeName {
		errs = append(errs, field.Forbidden(path.Child("nodeName"), "may not be changed directly"))
	}
	if name := is.NominatedNodeName; name != "" && name != was.NominatedNodeName {
		at := path.Child("nominatedNodeName")
		errs = append(errs, problems(name, at, checks.Subdomain)...)
		if old.Spec.NodeName != "" && !r.NominateBound {
			errs = append(errs, field.Forbidden(at, "may not be set on pods that are already bound to a node"))
		}
	}
	if is.ObservedGeneration < 0 {
		errs = append(errs, field.Invalid(path.Child("observedGeneration"), is.ObservedGeneration, notNegative))
	}
	errs = append(errs, validation.ValidateImmutableField(is.QOSClass, was.QOSClass, path.Child("qosClass"))...)
	if !restartsAll(&old.Spec) {
		errs = append(errs, noRestart(is.ContainerStatuses, was.ContainerStatuses, old.Spec.Containers,
			old.Spec.RestartPolicy, path.Child("containerStatuses"))...)
		errs = append(errs, noRestart(is.InitContainerStatuses, was.InitContainerStatuses, old.Spec.InitContainers,
			old.Spec.RestartPolicy, path.Child("initContainerStatuses"))...)
	}
	errs = append(errs, noRestart(is.EphemeralContainerStatuses, was.EphemeralContainerStatuses, nil,
		corev1.RestartPolicyNever, path.Child("ephemeralContainerStatuses"))...)
	errs = append(errs, validateClaimStatuses(is.ResourceClaimStatuses, new.Spec.ResourceClaims,
		path.Child("resourceClaimStatuses"))...)
	errs = append(errs, validateExtendedClaim(is.ExtendedResourceClaimStatus, &new.Spec,
		path.Child("extendedResourceClaimStatus"))...)
	errs = append(errs, validateStatusIPs(podIPs(is), podIPs(was), is.PodIPs, path.Child("podIPs"))...)
	if ips := is.HostIPs; len(ips) > 0 {
		if ips[0].IP != is.HostIP {
			errs = append(errs, field.Invalid(path.Child("hostIPs").Index(0).Child("ip"), ips[0].IP,
				"must be equal to `hostIP`"))
		}
		errs = append(errs, validateStatusIPs(hostIPs(is), hostIPs(was), ips, path.Child("hostIPs"))...)
	}
	for _, list := range containerLists(is, path) {
		for i, s := range list.statuses {
			errs = append(errs, validateStatusUser(s.User, new.Spec.OS, list.path.Index(i).Child("user", "linux"))...)
		}
	}
	errs = append(errs, validateAllocated(is.ContainerStatuses, new.Spec.Containers,
		path.Child("containerStatuses"))...)
	errs = append(errs, validateAllocated(is.InitContainerStatuses, new.Spec.InitContainers,
		path.Child("initContainerStatuses"))...)
	return append(errs, noneAllocated(is.EphemeralContainerStatuses, path.Child("ephemeralContainerStatuses"))...)
}

// StatusWarnings tells of addresses that are not written as they should be.
func StatusWarnings(new, _ *corev1.Pod) []string {
	var out []string
	path := field.NewPath("status")
	for i, ip := range new.Status.PodIPs {
		out = append(out, utilvalidation.GetWarningsForIP(path.Child("podIPs").Index(i).Child("ip"), ip.IP)...)
	}
	for i, ip := range new.Status.HostIPs {
		out = append(out, utilvalidation.GetWarningsForIP(path.Child("hostIPs").Index(i).Child("ip"), ip.IP)...)
	}
	return out
}

func validateConditions(list []corev1.PodCondition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, c := range list {
		if c.ObservedGeneration < 0 {
			errs = append(errs, field.Invalid(path.Index(i).Child("observedGeneration"), c.ObservedGeneration,
				notNegative))
		}
		errs = append(errs, problems(string(c.Type), path.Index(i).Child("Type"), utilvalidation.IsQualifiedName)...)
	}
	return errs
}

// restartsAll reports whether the end of a container may restart all containers of the pod.
func restartsAll(s *corev1.PodSpec) bool {
	return slices.ContainsFunc(slices.Concat(s.InitContainers, s.Containers), func(c corev1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		})
	})
}

// noRestart refuses that a container which ended for good runs again.
func noRestart(new, old []corev1.ContainerStatus, containers []corev1.Container, policy corev1.RestartPolicy,
	path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, was := range old {
		runs := func(is corev1.ContainerStatus) bool { return is.Name == was.Name && is.State.Terminated == nil }
		if was.State.Terminated == nil || !slices.ContainsFunc(new, runs) {
			continue
		}
		at := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == was.Name })
		if at < 0 || !restarts(&containers[at], policy, was.State.Terminated.ExitCode) {
			errs = append(errs, field.Forbidden(path.Index(i).Child("state"),
				"may not be transitioned to non-terminated state"))
		}
	}
	return errs
}

// restarts reports whether a container that ended is started again: by its rules, by its own policy, by the pod's.
func restarts(c *corev1.Container, pod corev1.RestartPolicy, code int32) bool {
	policy := string(pod)
	if c.RestartPolicy != nil {
		for _, r := range c.RestartPolicyRules {
			if r.ExitCodes != nil && slices.Contains(r.ExitCodes.Values,
				code) == (r.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
				return true
			}
		}
		policy = string(*c.RestartPolicy)
	}
	switch policy {
	case string(corev1.RestartPolicyNever):
		return false
	case string(corev1.RestartPolicyOnFailure):
		return code != 0
	}
	return true
}

func validateClaimStatuses(list []corev1.PodResourceClaimStatus, claims []corev1.PodResourceClaim,
	path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, s := range list {
		at := path.Index(i)
		if !slices.ContainsFunc(claims, func(c corev1.PodResourceClaim) bool { return c.Name == s.Name }) {
			errs = append(errs, field.Invalid(at.Child("name"), s.Name,
				"must match the name of an entry in `spec.resourceClaims`"))
		}
		if seen.Has(s.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), s.Name))
		}
		seen.Insert(s.Name)
		if name := s.ResourceClaimName; name != nil {
			for _, msg := range checks.Subdomain(*name) {
				errs = append(errs, field.Invalid(at.Child("resourceClaimName"), name, msg))
			}
		}
	}
	return errs
}

// validateStatusIPs checks one address of each family; shown is the list as errors show it.
func validateStatusIPs(is, was []string, shown any, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, ip := range is {
		errs = append(errs, utilvalidation.IsValidIPForLegacyField(path.Index(i), ip, true, was)...)
	}
	if len(is) < 2 {
		return errs
	}
	dual, err := netutils.IsDualStackIPStrings(is)
	if err != nil {
		errs = append(errs, field.InternalError(path, fmt.Errorf("failed to check for dual stack with error:%w", err)))
	}
	if !dual || len(is) > 2 {
		errs = append(errs, field.Invalid(path, checks.Unversioned(shown),
			"may specify no more than one IP for each IP family"))
	}
	return errs
}

func podIPs(s *corev1.PodStatus) []string {
	var out []string
	for _, ip := range s.PodIPs {
		out = append(out, ip.IP)
	}
	return out
}

func hostIPs(s *corev1.PodStatus) []string {
	var out []string
	for _, ip := range s.HostIPs {
		out = append(out, ip.IP)
	}
	return out
}

type statusList struct {
	statuses []corev1.ContainerStatus
	path     *field.Path
}

func containerLists(s *corev1.PodStatus, path *field.Path) []statusList {
	return []statusList{
		{s.ContainerStatuses, path.Child("containerStatuses")},
		{s.InitContainerStatuses, path.Child("initContainerStatuses")},
		{s.EphemeralContainerStatuses, path.Child("ephemeralContainerStatuses")},
	}
}

// validateStatusUser checks the user that a container runs as.
func validateStatusUser(u *corev1.ContainerUser, os *corev1.PodOS, path *field.Path) field.ErrorList {
	if u == nil || u.Linux == nil {
		return nil
	}
	if os != nil && os.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(path, "cannot be set for a windows pod")}
	}
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsValidUserID(u.Linux.UID) {
		errs = append(errs, field.Invalid(path.Child("uid"), u.Linux.UID, msg))
	}
	for _, msg := range utilvalidation.IsValidGroupID(u.Linux.GID) {
		errs = append(errs, field.Invalid(path.Child("gid"), u.Linux.GID, msg))
	}
	for i, gid := range u.Linux.SupplementalGroups {
		for _, msg := range utilvalidation.IsValidGroupID(gid) {
			errs = append(errs, field.Invalid(path.Child("supplementalGroups").Index(i), gid, msg))
		}
	}
	return errs
}
