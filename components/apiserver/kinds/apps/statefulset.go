package apps

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

var statefulSetParts = api.Parts[*appsv1.StatefulSet, appsv1.StatefulSetSpec, appsv1.StatefulSetStatus]{
	Spec:   func(s *appsv1.StatefulSet) *appsv1.StatefulSetSpec { return &s.Spec },
	Status: func(s *appsv1.StatefulSet) *appsv1.StatefulSetStatus { return &s.Status },
}

var statefulSetTemplate = podspec.Templated[*appsv1.StatefulSet]{
	Template: func(obj *appsv1.StatefulSet) *corev1.PodTemplateSpec { return &obj.Spec.Template },
	Path:     field.NewPath("spec", "template"),
}

func statefulSets(deps api.Deps) *api.Kind {
	rules := Rules{Pods: podspec.RulesOf(deps)}
	return api.Define(api.Row[*appsv1.StatefulSet]{
		Name: "StatefulSet", Resource: "statefulsets", ShortNames: []string{"sts"}, Categories: []string{"all"},
		Hub:     appsv1.SchemeGroupVersion,
		Default: DefaultStatefulSet,
		RemovedVersions: []api.Version{
			api.RemovedTwin[*appsv1beta2.StatefulSet](appsv1beta2.SchemeGroupVersion, DefaultStatefulSet),
			api.RemovedVersion(appsv1beta1.SchemeGroupVersion, StatefulSetFromV1beta1, DefaultStatefulSetV1beta1),
		},
		Strategy: api.Strategy[*appsv1.StatefulSet]{
			PrepareCreate: statefulSetTemplate.Create(deps.Pods, func(ctx context.Context, s *appsv1.StatefulSet) {
				DropDisabled(s, nil)
				statefulSetParts.Create(ctx, s)
			}),
			PrepareUpdate: statefulSetTemplate.Update(deps.Pods, func(ctx context.Context, new, old *appsv1.StatefulSet) {
				DropDisabled(new, old)
				statefulSetParts.Update(ctx, new, old)
			}),
			Validate:       api.OfObject(rules.ValidateStatefulSet),
			ValidateUpdate: api.OfChange(rules.ValidateStatefulSetUpdate),
			Warnings: func(_ context.Context, new, old *appsv1.StatefulSet) []string {
				return append(statefulSetTemplate.Warnings(new, old), StatefulSetWarnings(new, old)...)
			},
			ValidateName:        validation.NameIsDNSLabel,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &api.Strategy[*appsv1.StatefulSet]{
			PrepareUpdate: statefulSetParts.StatusUpdate,
			ValidateAmong: func(_ context.Context, new, old *appsv1.StatefulSet, meta api.MetaErrors) field.ErrorList {
				return slices.Concat(ValidateStatefulSetStatus(new), meta.Change,
					ValidateStatefulSetStatusChange(new, old))
			},
			Reset: []string{"spec"},
		},
		Scale: api.ReplicasScale(func(s *appsv1.StatefulSet) (autoscalingv1.ScaleSpec, autoscalingv1.ScaleStatus) {
			return api.ScaleOf(s.Spec.Replicas, s.Status.Replicas, s.Spec.Selector)
		},
			func(s *appsv1.StatefulSet, n int32) { s.Spec.Replicas = &n }),
		Columns: StatefulSetColumns(),
		Row:     StatefulSetRow,
	})
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
		return s != nil && s.Spec.UpdateStrategy.RollingUpdate != nil &&
			s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable != nil
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
		out = append(out,
			"spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return out
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
	names, images := show.Containers(s.Spec.Template.Spec.Containers)
	return []any{s.Name, fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, show.Or(s.Spec.Replicas, 0)),
		show.Age(s.CreationTimestamp), names, images}
}
