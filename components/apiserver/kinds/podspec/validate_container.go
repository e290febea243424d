package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// containerContext is what containers of a pod refer to.
type containerContext struct {
	spec    *corev1.PodSpec
	volumes map[string]corev1.VolumeSource
	claims  sets.Set[string]
	isPod   bool
}

func (c *containerContext) validateContainers(path *field.Path) field.ErrorList {
	if len(c.spec.Containers) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range c.spec.Containers {
		ctr, at := &c.spec.Containers[i], path.Index(i)
		errs = append(errs, c.validateContainer(ctr, at, names)...)
		errs = append(errs, validateLifecycle(ctr.Lifecycle, c.spec, at.Child("lifecycle"))...)
		errs = append(errs, validateProbes(ctr, c.spec, at)...)
		errs = append(errs, validateRestartRules(ctr, at, false)...)
	}
	errs = append(errs, hostPortConflicts(c.spec.Containers, path, map[string]bool{})...)
	if c.spec.HostNetwork {
		errs = append(errs, c.hostNetworkPorts(path)...)
	}
	return errs
}

func (c *containerContext) validateInit(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range c.spec.Containers {
		names.Insert(c.spec.Containers[i].Name)
	}
	for i := range c.spec.InitContainers {
		ctr, at := &c.spec.InitContainers[i], path.Index(i)
		errs = append(errs, c.validateContainer(ctr, at, names)...)
		errs = append(errs, validateRestartRules(ctr, at, true)...)
		errs = append(errs, hostPortConflicts(c.spec.InitContainers[i:i+1], path, map[string]bool{})...)
		if Restartable(ctr) {
			errs = append(errs, validateLifecycle(ctr.Lifecycle, c.spec, at.Child("lifecycle"))...)
			errs = append(errs, validateProbes(ctr, c.spec, at)...)
			continue
		}
		const only = "may not be set for init containers without restartPolicy=Always"
		for name, set := range map[string]bool{
			"lifecycle": ctr.Lifecycle != nil, "livenessProbe": ctr.LivenessProbe != nil,
			"readinessProbe": ctr.ReadinessProbe != nil, "startupProbe": ctr.StartupProbe != nil,
		} {
			if set {
				errs = append(errs, field.Forbidden(at.Child(name), only))
			}
		}
	}
	return errs
}

func (c *containerContext) validateEphemeral(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names, targets := sets.New[string](), sets.New[string]()
	for _, cs := range [][]corev1.Container{c.spec.Containers, c.spec.InitContainers} {
		for i := range cs {
			names.Insert(cs[i].Name)
			targets.Insert(cs[i].Name)
		}
	}
	for i := range c.spec.EphemeralContainers {
		e, at := &c.spec.EphemeralContainers[i], path.Index(i)
		ctr := corev1.Container(e.EphemeralContainerCommon)
		errs = append(errs, c.validateContainer(&ctr, at, names)...)
		if e.TargetContainerName != "" && !targets.Has(e.TargetContainerName) {
			errs = append(errs, field.NotFound(at.Child("targetContainerName"), e.TargetContainerName))
		}
		for j, m := range e.VolumeMounts {
			if m.SubPath != "" {
				errs = append(errs, field.Forbidden(at.Child("volumeMounts").Index(j).Child("subPath"), "cannot be set for an Ephemeral Container"))
			}
			if m.SubPathExpr != "" {
				errs = append(errs, field.Forbidden(at.Child("volumeMounts").Index(j).Child("subPathExpr"), "cannot be set for an Ephemeral Container"))
			}
		}
		for name, set := range map[string]bool{
			"ports": len(ctr.Ports) > 0, "livenessProbe": ctr.LivenessProbe != nil, "readinessProbe": ctr.ReadinessProbe != nil,
			"startupProbe": ctr.StartupProbe != nil, "lifecycle": ctr.Lifecycle != nil,
			"resources":     len(ctr.Resources.Limits)+len(ctr.Resources.Requests)+len(ctr.Resources.Claims) > 0,
			"restartPolicy": ctr.RestartPolicy != nil, "resizePolicy": len(ctr.ResizePolicy) > 0,
		} {
			if set {
				errs = append(errs, field.Forbidden(at.Child(name), "cannot be set for an Ephemeral Container"))
			}
		}
	}
	return errs
}

// validateContainer checks what containers of all three lists share, and takes the name.
func (c *containerContext) validateContainer(ctr *corev1.Container, at *field.Path, names sets.Set[string]) field.ErrorList {
	var errs field.ErrorList
	if ctr.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	} else {
		for _, msg := range utilvalidation.IsDNS1123Label(ctr.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), ctr.Name, msg))
		}
	}
	if names.Has(ctr.Name) {
		errs = append(errs, field.Duplicate(at.Child("name"), ctr.Name))
	}
	names.Insert(ctr.Name)
	if ctr.Image == "" {
		errs = append(errs, field.Required(at.Child("image"), ""))
	} else if strings.TrimSpace(ctr.Image) != ctr.Image {
		errs = append(errs, field.Invalid(at.Child("image"), ctr.Image, "must not have leading or trailing whitespace"))
	}
	errs = append(errs, oneOf(ctr.TerminationMessagePolicy, at.Child("terminationMessagePolicy"),
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	errs = append(errs, oneOf(ctr.ImagePullPolicy, at.Child("imagePullPolicy"),
		corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
	errs = append(errs, validatePorts(ctr.Ports, at.Child("ports"))...)
	errs = append(errs, validateEnv(ctr.Env, c.volumes, at.Child("env"))...)
	errs = append(errs, validateEnvFrom(ctr.EnvFrom, at.Child("envFrom"))...)
	errs = append(errs, c.validateMounts(ctr, at)...)
	errs = append(errs, validateResources(&ctr.Resources, c.claims, at.Child("resources"), containerResource)...)
	errs = append(errs, validateResizePolicy(ctr.ResizePolicy, c.spec.RestartPolicy, at.Child("resizePolicy"))...)
	return append(errs, validateSecurity(ctr.SecurityContext, c.spec, at.Child("securityContext"))...)
}

func validatePorts(ports []corev1.ContainerPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range ports {
		p, at := &ports[i], path.Index(i)
		if p.Name != "" {
			if msgs := utilvalidation.IsValidPortName(p.Name); len(msgs) > 0 {
				for _, msg := range msgs {
					errs = append(errs, field.Invalid(at.Child("name"), p.Name, msg))
				}
			} else if names.Has(p.Name) {
				errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
			} else {
				names.Insert(p.Name)
			}
		}
		if p.ContainerPort == 0 {
			errs = append(errs, field.Required(at.Child("containerPort"), ""))
		} else {
			errs = append(errs, portNumber(p.ContainerPort, at.Child("containerPort"))...)
		}
		if p.HostPort != 0 {
			errs = append(errs, portNumber(p.HostPort, at.Child("hostPort"))...)
		}
		errs = append(errs, oneOf(p.Protocol, at.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
	}
	return errs
}

func portNumber(port int32, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsValidPortNum(int(port)) {
		errs = append(errs, field.Invalid(path, port, msg))
	}
	return errs
}

func hostPortConflicts(containers []corev1.Container, path *field.Path, taken map[string]bool) field.ErrorList {
	var errs field.ErrorList
	for i := range containers {
		for j, p := range containers[i].Ports {
			if p.HostPort == 0 {
				continue
			}
			key := fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort)
			if taken[key] {
				errs = append(errs, field.Duplicate(path.Index(i).Child("ports").Index(j).Child("hostPort"), key))
			}
			taken[key] = true
		}
	}
	return errs
}

// hostNetworkPorts: on the host's network a container's port is the host's.
func (c *containerContext) hostNetworkPorts(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range c.spec.Containers {
		for j, p := range c.spec.Containers[i].Ports {
			if p.HostPort != p.ContainerPort && (c.isPod || p.HostPort != 0) {
				errs = append(errs, field.Invalid(path.Index(i).Child("ports").Index(j).Child("containerPort"), p.ContainerPort,
					"must match `hostPort` when `hostNetwork` is true"))
			}
		}
	}
	return errs
}

func validateRestartRules(ctr *corev1.Container, at *field.Path, init bool) field.ErrorList {
	var errs field.ErrorList
	rules := at.Child("restartPolicyRules")
	if p := ctr.RestartPolicy; p != nil {
		errs = append(errs, oneOf(*p, at.Child("restartPolicy"), corev1.ContainerRestartPolicyAlways,
			corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)...)
		if init && *p == corev1.ContainerRestartPolicyAlways && len(ctr.RestartPolicyRules) > 0 {
			errs = append(errs, field.Forbidden(rules, "restartPolicyRules are not allowed for sidecar containers with restartPolicy=Always"))
		}
	} else if len(ctr.RestartPolicyRules) > 0 {
		errs = append(errs, field.Required(at.Child("restartPolicy"), "must specify restartPolicy when restart rules are used"))
	}
	const maxRules, maxValues = 20, 255
	if len(ctr.RestartPolicyRules) > maxRules {
		errs = append(errs, field.TooMany(rules, len(ctr.RestartPolicyRules), maxRules))
	}
	for i, r := range ctr.RestartPolicyRules {
		errs = append(errs, oneOf(r.Action, rules.Index(i).Child("action"),
			corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)...)
		codes := rules.Index(i).Child("exitCodes")
		if r.ExitCodes == nil {
			errs = append(errs, field.Required(codes, "must be specified"))
			continue
		}
		errs = append(errs, oneOf(r.ExitCodes.Operator, codes.Child("operator"),
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)...)
		if n := len(r.ExitCodes.Values); n == 0 {
			errs = append(errs, field.Required(codes.Child("values"), "must specify at least one value"))
		} else if n > maxValues {
			errs = append(errs, field.TooMany(codes.Child("values"), n, maxValues))
		}
	}
	return errs
}
