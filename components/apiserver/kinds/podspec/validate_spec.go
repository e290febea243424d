package podspec

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// validateSpec checks a pod spec. old is what it was before, nil if it is new; meta is that of the pod, nil where the
// spec stands in a template. Errors come in upstream's order, which clients see in the message.
func (r Rules) validateSpec(s *corev1.PodSpec, old *oldState, meta *metav1.ObjectMeta,
	path *field.Path) field.ErrorList {
	volumes, errs := validateVolumes(s.Volumes, old, meta, path.Child("volumes"))
	claims, more := validateClaims(s.ResourceClaims, meta, path.Child("resourceClaims"))
	errs = append(errs, more...)
	c := containers{rules: r, spec: s, volumes: volumes, claims: claims, old: old}
	errs = append(errs, c.regular(path.Child("containers"))...)
	errs = append(errs, c.init(path.Child("initContainers"))...)
	errs = append(errs, c.ephemeral(path.Child("ephemeralContainers"))...)
	errs = append(errs, validatePodResources(s, old, claims, path.Child("resources"))...)
	errs = append(errs, hostNetworkPorts(s, path.Child("containers"))...)
	errs = append(errs, enum(s.RestartPolicy, path.Child("restartPolicy"),
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)...)
	errs = append(errs, enum(s.DNSPolicy, path.Child("dnsPolicy"), corev1.DNSClusterFirstWithHostNet,
		corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)...)
	errs = append(errs, metavalidation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))...)
	errs = append(errs, validatePodSecurity(s, old, path)...)
	if s.Affinity != nil {
		errs = append(errs, validateAffinity(s.Affinity, old, path.Child("affinity"))...)
	}
	errs = append(errs, validateDNS(s.DNSConfig, s.DNSPolicy, path.Child("dnsConfig"))...)
	errs = append(errs, validateReadinessGates(s.ReadinessGates, path.Child("readinessGates"))...)
	errs = append(errs, validateGates(s.SchedulingGates, path.Child("schedulingGates"))...)
	errs = append(errs, validateSpread(s.TopologySpreadConstraints, old, path.Child("topologySpreadConstraints"))...)
	errs = append(errs, r.validateHostProcess(s, path)...)
	errs = append(errs, validateHostUsers(s, old, path)...)
	errs = append(errs, validateNames(s, old, path)...)
	errs = append(errs, validateOS(s, path)...)
	return append(errs, validateFileVolumes(s, path)...)
}

// validateNames checks the fields that name other objects or the pod's host, and what stands among them.
func validateNames(s *corev1.PodSpec, old *oldState, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	named := func(name, value string, check func(string) []string) {
		if value != "" {
			errs = append(errs, problems(value, path.Child(name), check)...)
		}
	}
	errs = append(errs, validateHostnameOverride(s, path.Child("hostnameOverride"))...)
	named("serviceAccountName", s.ServiceAccountName, checks.Subdomain)
	named("nodeName", s.NodeName, checks.Subdomain)
	if d := s.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		errs = append(errs, field.Invalid(path.Child("activeDeadlineSeconds"), *d,
			utilvalidation.InclusiveRangeError(1, math.MaxInt32)))
	}
	named("hostname", s.Hostname, checks.Label)
	named("subdomain", s.Subdomain, checks.Label)
	errs = append(errs, validateTolerations(s.Tolerations, old, path.Child("tolerations"))...)
	errs = append(errs, validateHostAliases(s.HostAliases, path.Child("hostAliases"))...)
	named("priorityClassName", s.PriorityClassName, checks.Subdomain)
	if s.RuntimeClassName != nil {
		errs = append(errs, problems(*s.RuntimeClassName, path.Child("runtimeClassName"), checks.Subdomain)...)
	}
	if p := s.PreemptionPolicy; p != nil {
		errs = append(errs, enum(*p, path.Child("preemptionPolicy"), corev1.PreemptLowerPriority,
			corev1.PreemptNever)...)
	}
	if s.Overhead != nil {
		errs = append(errs, validateOverhead(s.Overhead, old, path.Child("overhead"))...)
	}
	return errs
}

// maxHostname is what Linux allows.
const maxHostname = 64

func validateHostnameOverride(s *corev1.PodSpec, at *field.Path) field.ErrorList {
	h := s.HostnameOverride
	if h == nil {
		return nil
	}
	var errs field.ErrorList
	if s.SetHostnameAsFQDN != nil && *s.SetHostnameAsFQDN {
		errs = append(errs, field.Forbidden(at, "may not be specified when setHostnameAsFQDN is true"))
	}
	if s.HostNetwork {
		errs = append(errs, field.Forbidden(at, "may not be specified when hostNetwork is true"))
	}
	if len(*h) > maxHostname {
		errs = append(errs, field.TooLong(at, "", maxHostname))
	}
	return append(errs, problems(*h, at, utilvalidation.IsDNS1123Subdomain)...)
}

func validateReadinessGates(list []corev1.PodReadinessGate, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, g := range list {
		errs = append(errs, problems(string(g.ConditionType), path.Index(i).Child("conditionType"),
			utilvalidation.IsQualifiedName)...)
	}
	return errs
}

func validateHostAliases(list []corev1.HostAlias, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, a := range list {
		errs = append(errs, utilvalidation.IsValidIPForLegacyField(path.Index(i).Child("ip"), a.IP, true, nil)...)
		for j, name := range a.Hostnames {
			errs = append(errs, problems(name, path.Index(i).Child("hostnames").Index(j),
				utilvalidation.IsDNS1123Subdomain)...)
		}
	}
	return errs
}

// enum checks a value that must be set and one of a few. known is shown in the order given.
func enum[T ~string](value T, path *field.Path, known ...T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return supported(value, path, known...)
}

// supported checks a value that must be one of a few, where none at all is just another wrong one.
func supported[T ~string](value T, path *field.Path, known ...T) field.ErrorList {
	if slices.Contains(known, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, known)}
}

func pullPolicies(p corev1.PullPolicy, at *field.Path) field.ErrorList {
	return enum(p, at, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
}

func nonNegative(value int64, at *field.Path) field.ErrorList {
	if value < 0 {
		return field.ErrorList{field.Invalid(at, value, "must be greater than or equal to 0")}
	}
	return nil
}
