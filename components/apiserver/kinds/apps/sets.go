package apps

import (
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// DefaultDaemonSet sets the defaults of a daemon set.
func DefaultDaemonSet(d *appsv1.DaemonSet) {
	podspec.DefaultTemplate(&d.Spec.Template)
	if CheckDaemonSet(d) == nil {
		SetTemplateGeneration(d, TemplateGeneration(d))
	}
	u := &d.Spec.UpdateStrategy
	if u.Type == "" {
		u.Type = appsv1.RollingUpdateDaemonSetStrategyType
	}
	if u.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		if u.RollingUpdate == nil {
			u.RollingUpdate = &appsv1.RollingUpdateDaemonSet{}
		}
		setDefault(&u.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
	}
	if r := u.RollingUpdate; r != nil {
		setDefault(&r.MaxUnavailable, intstr.FromInt32(0)) // of another strategy, where it means nothing
		setDefault(&r.MaxSurge, intstr.FromInt32(0))
	}
	setDefault(&d.Spec.RevisionHistoryLimit, 10)
}

// CheckDaemonSet tells of an annotation of the template's generation that is no number.
func CheckDaemonSet(d *appsv1.DaemonSet) error {
	text, set := d.Annotations[appsv1.DeprecatedTemplateGeneration]
	if !set {
		return nil
	}
	_, err := strconv.ParseInt(text, 10, 64)
	return err
}

// TemplateGeneration returns how often the template of a daemon set has changed. It lives in an annotation since the
// field is gone from the API.
func TemplateGeneration(d *appsv1.DaemonSet) int64 {
	n, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// SetTemplateGeneration writes it.
func SetTemplateGeneration(d *appsv1.DaemonSet, n int64) {
	if d.Annotations[appsv1.DeprecatedTemplateGeneration] == strconv.FormatInt(n, 10) {
		return
	}
	annotations := make(map[string]string, len(d.Annotations)+1)
	for k, v := range d.Annotations {
		annotations[k] = v
	}
	annotations[appsv1.DeprecatedTemplateGeneration] = strconv.FormatInt(n, 10)
	d.Annotations = annotations
}

// DefaultStatefulSet sets the defaults of a stateful set.
func DefaultStatefulSet(s *appsv1.StatefulSet) {
	spec := &s.Spec
	podspec.DefaultTemplate(&spec.Template)
	for i := range spec.VolumeClaimTemplates {
		c := &spec.VolumeClaimTemplates[i]
		c.APIVersion, c.Kind = "v1", "PersistentVolumeClaim"
		if c.Status.Phase == "" {
			c.Status.Phase = corev1.ClaimPending
		}
		podspec.DefaultClaimSpec(&c.Spec)
		podspec.RoundUp(c.Status.Capacity)
		podspec.RoundUp(c.Status.AllocatedResources)
	}
	if spec.PodManagementPolicy == "" {
		spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	}
	u := &spec.UpdateStrategy
	if u.Type == "" {
		u.Type = appsv1.RollingUpdateStatefulSetStrategyType
		if u.RollingUpdate == nil {
			u.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
		}
	}
	if u.RollingUpdate != nil {
		setDefault(&u.RollingUpdate.Partition, 0)
	}
	if spec.PersistentVolumeClaimRetentionPolicy == nil {
		spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{}
	}
	p := spec.PersistentVolumeClaimRetentionPolicy
	if p.WhenDeleted == "" {
		p.WhenDeleted = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	if p.WhenScaled == "" {
		p.WhenScaled = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	setDefault(&spec.Replicas, 1)
	setDefault(&spec.RevisionHistoryLimit, 10)
}

// DropDisabled removes what belongs to features that are off (KEP-961), unless old, nil on create, has it.
func DropDisabled(new, old *appsv1.StatefulSet) {
	uses := func(s *appsv1.StatefulSet) bool {
		return s != nil && s.Spec.UpdateStrategy.RollingUpdate != nil && s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable != nil
	}
	if uses(new) && !uses(old) {
		new.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = nil
	}
}

// StatefulSetWarnings tells of what is accepted, but hardly meant, besides the template. old is nil on create.
func StatefulSetWarnings(s, old *appsv1.StatefulSet) []string {
	var out []string
	for i := range s.Spec.VolumeClaimTemplates {
		at := field.NewPath("spec", "volumeClaimTemplates").Index(i)
		if old != nil {
			at = at.Child("Spec")
		}
		out = append(out, podspec.ClaimWarnings(&s.Spec.VolumeClaimTemplates[i].Spec, at)...)
	}
	if l := s.Spec.RevisionHistoryLimit; l != nil && *l < 0 {
		out = append(out, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return out
}

// DaemonSetColumns are the columns of daemon sets.
func DaemonSetColumns() show.Columns {
	spec, status := appsv1.DaemonSetSpec{}.SwaggerDoc(), appsv1.DaemonSetStatus{}.SwaggerDoc()
	return show.Name().
		Of("integer", "Desired", status["desiredNumberScheduled"]).
		Of("integer", "Current", status["currentNumberScheduled"]).
		Of("integer", "Ready", status["numberReady"]).
		Of("integer", "Up-to-date", status["updatedNumberScheduled"]).
		Of("integer", "Available", status["numberAvailable"]).
		String("Node Selector", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"]).
		Age().
		Wide("Containers", namesOfContainers).
		Wide("Images", imagesOfContainers).
		Wide("Selector", spec["selector"])
}

// DaemonSetRow are the cells of a daemon set.
func DaemonSetRow(d *appsv1.DaemonSet) []any {
	names, images := Containers(d.Spec.Template.Spec.Containers)
	s := &d.Status
	return []any{
		d.Name, int64(s.DesiredNumberScheduled), int64(s.CurrentNumberScheduled), int64(s.NumberReady),
		int64(s.UpdatedNumberScheduled), int64(s.NumberAvailable), show.Labels(d.Spec.Template.Spec.NodeSelector),
		show.Age(d.CreationTimestamp), names, images, show.Selector(d.Spec.Selector),
	}
}

// StatefulSetColumns are the columns of stateful sets.
func StatefulSetColumns() show.Columns {
	return show.Name().
		String("Ready", "Number of the pod with ready state").
		Age().
		Wide("Containers", namesOfContainers).
		Wide("Images", imagesOfContainers)
}

// StatefulSetRow are the cells of a stateful set.
func StatefulSetRow(s *appsv1.StatefulSet) []any {
	names, images := Containers(s.Spec.Template.Spec.Containers)
	return []any{s.Name, fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, show.Or(s.Spec.Replicas, 0)),
		show.Age(s.CreationTimestamp), names, images}
}

// RevisionColumns are the columns of controller revisions.
func RevisionColumns() show.Columns {
	return show.Name().
		String("Controller", "Controller of the object").
		String("Revision", appsv1.ControllerRevision{}.SwaggerDoc()["revision"]).
		Age()
}

// RevisionRow are the cells of a controller revision.
func RevisionRow(r *appsv1.ControllerRevision) []any {
	controller := show.None
	if ref := metav1.GetControllerOf(r); ref != nil {
		resource := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind().String()
		controller = strings.ToLower(resource) + "/" + ref.Name
	}
	return []any{r.Name, controller, r.Revision, show.Age(r.CreationTimestamp)}
}
