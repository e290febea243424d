package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

var replicaSetParts = api.Parts[*appsv1.ReplicaSet, appsv1.ReplicaSetSpec, appsv1.ReplicaSetStatus]{
	Spec:   func(r *appsv1.ReplicaSet) *appsv1.ReplicaSetSpec { return &r.Spec },
	Status: func(r *appsv1.ReplicaSet) *appsv1.ReplicaSetStatus { return &r.Status },
}

var replicaSetTemplate = podspec.Templated[*appsv1.ReplicaSet]{
	Template: func(obj *appsv1.ReplicaSet) *corev1.PodTemplateSpec { return &obj.Spec.Template },
	Path:     field.NewPath("spec", "template"),
	Naming:   true,
}

func replicaSets(deps api.Deps) *api.Kind {
	rules := Rules{Pods: podspec.RulesOf(deps)}
	return api.Define(api.Row[*appsv1.ReplicaSet]{
		Name: "ReplicaSet", Resource: "replicasets", ShortNames: []string{"rs"}, Categories: []string{"all"},
		Hub:     appsv1.SchemeGroupVersion,
		Default: DefaultReplicaSet,
		RemovedVersions: []api.Version{
			api.RemovedTwin[*appsv1beta2.ReplicaSet](appsv1beta2.SchemeGroupVersion, DefaultReplicaSet),
			api.RemovedTwin[*extensionsv1beta1.ReplicaSet](extensionsv1beta1.SchemeGroupVersion,
				DefaultReplicaSetExtensions),
		},
		Strategy: api.Strategy[*appsv1.ReplicaSet]{
			PrepareCreate:       replicaSetTemplate.Create(deps.Pods, replicaSetParts.Create),
			PrepareUpdate:       replicaSetTemplate.Update(deps.Pods, replicaSetParts.Update),
			Validate:            api.OfObject(rules.ValidateReplicaSet),
			ValidateUpdate:      api.OfChange(rules.ValidateReplicaSetUpdate),
			Warnings:            api.OfChange(replicaSetTemplate.Warnings),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &api.Strategy[*appsv1.ReplicaSet]{
			PrepareUpdate:  replicaSetParts.StatusUpdate,
			ValidateUpdate: api.OfChange(ValidateReplicaSetStatus),
			Reset:          []string{"spec"},
		},
		Scale: api.ReplicasScale(func(r *appsv1.ReplicaSet) (autoscalingv1.ScaleSpec, autoscalingv1.ScaleStatus) {
			return api.ScaleOf(r.Spec.Replicas, r.Status.Replicas, r.Spec.Selector)
		},
			func(r *appsv1.ReplicaSet, n int32) { r.Spec.Replicas = &n }),
		Columns: ReplicaSetColumns(),
		Row:     ReplicaSetRow,
	})
}

const (
	namesOfContainers  = "Names of each container in the template."
	imagesOfContainers = "Images referenced by each container in the template."
)

// ReplicaSetColumns are the columns of replica sets.
func ReplicaSetColumns() show.Columns {
	spec, status := appsv1.ReplicaSetSpec{}.SwaggerDoc(), appsv1.ReplicaSetStatus{}.SwaggerDoc()
	return show.Name().
		Of("integer", "Desired", spec["replicas"]).
		Of("integer", "Current", status["replicas"]).
		Of("integer", "Ready", status["readyReplicas"]).
		Age().
		Wide("Containers", namesOfContainers).
		Wide("Images", imagesOfContainers).
		Wide("Selector", spec["selector"])
}

// ReplicaSetRow are the cells of a replica set.
func ReplicaSetRow(r *appsv1.ReplicaSet) []any {
	names, images := show.Containers(r.Spec.Template.Spec.Containers)
	return []any{
		r.Name, int64(show.Or(r.Spec.Replicas, 0)), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas),
		show.Age(r.CreationTimestamp), names, images, show.Selector(r.Spec.Selector),
	}
}

// DefaultReplicaSet sets the defaults of a replica set.
func DefaultReplicaSet(r *appsv1.ReplicaSet) {
	podspec.DefaultTemplate(&r.Spec.Template)
	setDefault(&r.Spec.Replicas, 1)
}
