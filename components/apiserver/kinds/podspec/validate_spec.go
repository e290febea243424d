package podspec

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate checks a pod spec. isPod is false where it stands in a template, for which a little less is known.
func Validate(s *corev1.PodSpec, path *field.Path, isPod bool) field.ErrorList {
	volumes, errs := validateVolumes(s.Volumes, path.Child("volumes"))
	claims, more := validateClaims(s.ResourceClaims, path.Child("resourceClaims"))
	errs = append(errs, more...)
	c := containerContext{spec: s, volumes: volumes, claims: claims, isPod: isPod}
	errs = append(errs, c.validateContainers(path.Child("containers"))...)
	errs = append(errs, c.validateInit(path.Child("initContainers"))...)
	errs = append(errs, c.validateEphemeral(path.Child("ephemeralContainers"))...)
	errs = append(errs, validatePodResources(s, path.Child("resources"))...)

	errs = append(errs, oneOf(s.RestartPolicy, path.Child("restartPolicy"),
		corev1.RestartPolicyAlways, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure)...)
	errs = append(errs, oneOf(s.DNSPolicy, path.Child("dnsPolicy"), corev1.DNSClusterFirst,
		corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault, corev1.DNSNone)...)
	errs = append(errs, metavalidation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))...)
	errs = append(errs, validatePodSecurity(s, path)...)
	errs = append(errs, validateAffinity(s.Affinity, path.Child("affinity"))...)
	errs = append(errs, validateDNS(s.DNSConfig, s.DNSPolicy, path.Child("dnsConfig"))...)
	errs = append(errs, validateReadinessGates(s.ReadinessGates, path.Child("readinessGates"))...)
	errs = append(errs, validateGates(s.SchedulingGates, path.Child("schedulingGates"))...)
	errs = append(errs, validateSpread(s.TopologySpreadConstraints, path.Child("topologySpreadConstraints"))...)
	errs = append(errs, validateNames(s, path)...)
	errs = append(errs, Tolerations(s.Tolerations, path.Child("tolerations"))...)
	errs = append(errs, validateHostAliases(s.HostAliases, path.Child("hostAliases"))...)
	if d := s.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		errs = append(errs, field.Invalid(path.Child("activeDeadlineSeconds"), *d, utilvalidation.InclusiveRangeError(1, math.MaxInt32)))
	}
	if p := s.PreemptionPolicy; p != nil {
		errs = append(errs, oneOf(*p, path.Child("preemptionPolicy"), corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	if s.Overhead != nil {
		errs = append(errs, validateResources(&corev1.ResourceRequirements{Limits: s.Overhead}, nil, path.Child("overhead"), containerResource)...)
	}
	return append(errs, validateOS(s, path)...)
}

// validateNames checks the fields that name other objects or the pod's host.
func validateNames(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := func(name, value string, problems func(string) []string) {
		if value == "" {
			return
		}
		for _, msg := range problems(value) {
			errs = append(errs, field.Invalid(path.Child(name), value, msg))
		}
	}
	subdomain := func(v string) []string { return validation.NameIsDNSSubdomain(v, false) }
	check("serviceAccountName", s.ServiceAccountName, subdomain)
	check("nodeName", s.NodeName, nodeNameProblems)
	check("hostname", s.Hostname, utilvalidation.IsDNS1123Label)
	check("subdomain", s.Subdomain, utilvalidation.IsDNS1123Label)
	check("priorityClassName", s.PriorityClassName, subdomain)
	if s.RuntimeClassName != nil {
		for _, msg := range subdomain(*s.RuntimeClassName) {
			errs = append(errs, field.Invalid(path.Child("runtimeClassName"), *s.RuntimeClassName, msg))
		}
	}
	if h := s.HostnameOverride; h != nil {
		at := path.Child("hostnameOverride")
		for _, msg := range utilvalidation.IsDNS1123Subdomain(*h) {
			errs = append(errs, field.Invalid(at, *h, msg))
		}
		if len(*h) > maxHostname {
			errs = append(errs, field.TooLong(at, "", maxHostname))
		}
		if s.SetHostnameAsFQDN != nil && *s.SetHostnameAsFQDN {
			errs = append(errs, field.Invalid(at, *h, "may not be specified if `setHostnameAsFQDN` is true"))
		}
		if s.HostNetwork {
			errs = append(errs, field.Invalid(at, *h, "may not be specified if `hostNetwork` is true"))
		}
	}
	return errs
}

// maxHostname is what Linux allows.
const maxHostname = 64

func nodeNameProblems(name string) []string {
	if name == "" {
		return nil
	}
	return validation.NameIsDNSSubdomain(name, false)
}

func validateReadinessGates(list []corev1.PodReadinessGate, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, g := range list {
		for _, msg := range utilvalidation.IsQualifiedName(string(g.ConditionType)) {
			errs = append(errs, field.Invalid(path.Index(i).Child("conditionType"), string(g.ConditionType), msg))
		}
	}
	return errs
}

func validateHostAliases(list []corev1.HostAlias, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, a := range list {
		errs = append(errs, utilvalidation.IsValidIPForLegacyField(path.Index(i).Child("ip"), a.IP, false, nil)...)
		for j, name := range a.Hostnames {
			for _, msg := range utilvalidation.IsDNS1123Subdomain(name) {
				errs = append(errs, field.Invalid(path.Index(i).Child("hostnames").Index(j), name, msg))
			}
		}
	}
	return errs
}

func validateClaims(list []corev1.PodResourceClaim, path *field.Path) (sets.Set[string], field.ErrorList) {
	var errs field.ErrorList
	names := sets.New[string]()
	for i, c := range list {
		at := path.Index(i)
		if c.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		} else if names.Has(c.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		} else {
			for _, msg := range utilvalidation.IsDNS1123Label(c.Name) {
				errs = append(errs, field.Invalid(at.Child("name"), c.Name, msg))
			}
			names.Insert(c.Name)
		}
		switch {
		case c.ResourceClaimName != nil && c.ResourceClaimTemplateName != nil:
			errs = append(errs, field.Invalid(at, c, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"))
		case c.ResourceClaimName == nil && c.ResourceClaimTemplateName == nil:
			errs = append(errs, field.Invalid(at, c, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
		}
		for name, value := range map[string]*string{"resourceClaimName": c.ResourceClaimName, "resourceClaimTemplateName": c.ResourceClaimTemplateName} {
			if value == nil {
				continue
			}
			for _, msg := range validation.NameIsDNSSubdomain(*value, false) {
				errs = append(errs, field.Invalid(at.Child(name), *value, msg))
			}
		}
	}
	return names, errs
}

// oneOf checks a value that must be set and one of a few.
func oneOf[T ~string](value T, path *field.Path, known ...T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	set := sets.New(known...)
	if !set.Has(value) {
		return field.ErrorList{field.NotSupported(path, value, sets.List(set))}
	}
	return nil
}

func nonNegative(value int64, path *field.Path) field.ErrorList {
	return validation.ValidateNonnegativeField(value, path)
}
