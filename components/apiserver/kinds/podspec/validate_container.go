package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// containers checks the containers of a pod, with what they refer to.
type containers struct {
	rules   Rules
	spec    *corev1.PodSpec
	volumes map[string]corev1.VolumeSource
	claims  sets.Set[string]
	old     *oldState
}

func (c *containers) regular(path *field.Path) field.ErrorList {
	if len(c.spec.Containers) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range c.spec.Containers {
		ctr, at := &c.spec.Containers[i], path.Index(i)
		errs = append(errs, c.shared(ctr, at)...)
		if names.Has(ctr.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), ctr.Name))
		}
		names.Insert(ctr.Name)
		errs = append(errs, validateLifecycle(ctr.Lifecycle, c.spec, at.Child("lifecycle"))...)
		errs = append(errs, validateProbes(ctr, c.spec, at)...)
		errs = append(errs, validateRestartRules(ctr, at)...)
	}
	return append(errs, hostPortConflicts(c.spec.Containers, path)...)
}

func (c *containers) init(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := namesOf(c.spec.Containers)
	for i := range c.spec.InitContainers {
		ctr, at := &c.spec.InitContainers[i], path.Index(i)
		errs = append(errs, c.shared(ctr, at)...)
		if ctr.RestartPolicy == nil && len(ctr.RestartPolicyRules) > 0 {
			errs = append(errs, noRestartPolicy(at)...)
		} else {
			errs = append(errs, validateRestartRules(ctr, at)...)
		}
		errs = append(errs, takeName(ctr.Name, names, at)...)
		// Each runs alone; upstream calls it the first of the list here.
		errs = append(errs, hostPortConflicts(c.spec.InitContainers[i:i+1], path)...)
		if Restartable(ctr) {
			errs = append(errs, validateLifecycle(ctr.Lifecycle, c.spec, at.Child("lifecycle"))...)
			errs = append(errs, validateProbes(ctr, c.spec, at)...)
			continue
		}
		errs = append(errs, forbidden(at, "may not be set for init containers without restartPolicy=Always",
			handlersOf(ctr))...)
		for j, p := range ctr.ResizePolicy {
			if restartsToResize(p) && !c.old.had(restartingInit) {
				errs = append(errs, field.Invalid(at.Child("resizePolicy").Index(j).Child("restartPolicy"),
					p.RestartPolicy,
					"must not be set to 'RestartContainer' for non-sidecar initContainers"))
			}
		}
	}
	return errs
}

func restartsToResize(p corev1.ContainerResizePolicy) bool {
	return p.RestartPolicy == corev1.RestartContainer
}

// handlersOf lists what only containers that go on running have.
func handlersOf(ctr *corev1.Container) []setField {
	return []setField{{"lifecycle", ctr.Lifecycle != nil}, {"livenessProbe", ctr.LivenessProbe != nil},
		{"readinessProbe", ctr.ReadinessProbe != nil}, {"startupProbe", ctr.StartupProbe != nil}}
}

func (c *containers) ephemeral(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	targets := namesOf(c.spec.Containers).Union(namesOf(c.spec.InitContainers))
	names := targets.Clone()
	for i := range c.spec.EphemeralContainers {
		e, at := &c.spec.EphemeralContainers[i], path.Index(i)
		ctr := corev1.Container(e.EphemeralContainerCommon)
		errs = append(errs, c.shared(&ctr, at)...)
		errs = append(errs, trimmed(ctr.Image, at)...)
		if names.Has(ctr.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), ctr.Name))
		}
		names.Insert(ctr.Name)
		if e.TargetContainerName != "" && !targets.Has(e.TargetContainerName) {
			errs = append(errs, field.NotFound(at.Child("targetContainerName"), e.TargetContainerName))
		}
		const never = "cannot be set for an Ephemeral Container"
		errs = append(errs, forbidden(at, never, []setField{
			{"ports", ctr.Ports != nil}, // an empty list is one
			{"resources", ctr.Resources.Limits != nil || ctr.Resources.Requests != nil || ctr.Resources.Claims != nil},
			{"resizePolicy", ctr.ResizePolicy != nil}, {"restartPolicy", ctr.RestartPolicy != nil},
			{"restartPolicyRules", ctr.RestartPolicyRules != nil}, {"livenessProbe", ctr.LivenessProbe != nil},
			{"readinessProbe", ctr.ReadinessProbe != nil}, {"startupProbe", ctr.StartupProbe != nil},
			{"lifecycle", ctr.Lifecycle != nil},
		})...)
		for j, m := range e.VolumeMounts {
			errs = append(errs, forbidden(at.Child("volumeMounts").Index(j), never,
				[]setField{{"subPath", m.SubPath != ""}, {"subPathExpr", m.SubPathExpr != ""}})...)
		}
	}
	return errs
}

// setField is a field and whether it has a value.
type setField struct {
	name string
	set  bool
}

// forbidden refuses those of the fields that are set.
func forbidden(at *field.Path, why string, fields []setField) field.ErrorList {
	var errs field.ErrorList
	for _, f := range fields {
		if f.set {
			errs = append(errs, field.Forbidden(at.Child(f.name), why))
		}
	}
	return errs
}

func namesOf(list []corev1.Container) sets.Set[string] {
	names := sets.New[string]()
	for i := range list {
		names.Insert(list[i].Name)
	}
	return names
}

func takeName(name string, names sets.Set[string], at *field.Path) field.ErrorList {
	if names.Has(name) {
		return field.ErrorList{field.Duplicate(at.Child("name"), name)}
	}
	if name != "" { // which is told already, once for each
		names.Insert(name)
	}
	return nil
}

// shared checks what containers of all three lists have.
func (c *containers) shared(ctr *corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if ctr.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	} else {
		errs = append(errs, problems(ctr.Name, at.Child("name"), checks.Label)...)
	}
	errs = append(errs, checks.Required(ctr.Image, at.Child("image"))...)
	errs = append(errs, enum(ctr.TerminationMessagePolicy, at.Child("terminationMessagePolicy"),
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	errs = append(errs, validatePorts(ctr.Ports, at.Child("ports"))...)
	errs = append(errs, validateEnv(ctr.Env, at.Child("env"))...)
	errs = append(errs, validateEnvFrom(ctr.EnvFrom, at.Child("envFrom"))...)
	errs = append(errs, c.mounts(ctr, at.Child("volumeMounts"))...)
	errs = append(errs, c.devices(ctr, at.Child("volumeDevices"))...)
	errs = append(errs, pullPolicies(ctr.ImagePullPolicy, at.Child("imagePullPolicy"))...)
	errs = append(errs, validateResources(&ctr.Resources, c.old, c.claims, at.Child("resources"), ContainerResource)...)
	errs = append(errs, validateResizePolicy(ctr.ResizePolicy, c.spec.RestartPolicy, at.Child("resizePolicy"))...)
	return append(errs, c.rules.validateSecurity(ctr.SecurityContext, c.spec, at.Child("securityContext"))...)
}

// trimmed checks that nothing invisible is around the image of a container, which templates may have.
func trimmed(image string, at *field.Path) field.ErrorList {
	if strings.TrimSpace(image) == image {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child("image"), image, "must not have leading or trailing whitespace")}
}

// Bounds of the rules by which a container is restarted.
const (
	maxRestartRules = 20
	maxExitCodes    = 255
)

func noRestartPolicy(at *field.Path) field.ErrorList {
	return field.ErrorList{field.Required(at.Child("restartPolicy"),
		"must specify restartPolicy when restart rules are used")}
}

func validateRestartRules(ctr *corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p := ctr.RestartPolicy; p != nil {
		errs = append(errs, supported(*p, at.Child("restartPolicy"), corev1.ContainerRestartPolicyAlways,
			corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)...)
	}
	if len(ctr.RestartPolicyRules) == 0 {
		return errs
	}
	if ctr.RestartPolicy == nil {
		errs = append(errs, noRestartPolicy(at)...)
	}
	rules := at.Child("restartPolicyRules")
	if len(ctr.RestartPolicyRules) > maxRestartRules {
		errs = append(errs, field.TooMany(rules, len(ctr.RestartPolicyRules), maxRestartRules))
	}
	for i, r := range ctr.RestartPolicyRules {
		errs = append(errs, supported(r.Action, rules.Index(i).Child("action"),
			corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)...)
		codes := rules.Index(i).Child("exitCodes")
		if r.ExitCodes == nil {
			errs = append(errs, field.Required(codes, "must be specified"))
			continue
		}
		errs = append(errs, supported(r.ExitCodes.Operator, codes.Child("operator"),
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)...)
		if n := len(r.ExitCodes.Values); n > maxExitCodes {
			errs = append(errs, field.TooMany(codes.Child("values"), n, maxExitCodes))
		}
	}
	return errs
}
