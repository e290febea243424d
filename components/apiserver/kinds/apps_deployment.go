package kinds

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/apps"
)

var deploymentParts = parts[*appsv1.Deployment, appsv1.DeploymentSpec, appsv1.DeploymentStatus]{
	spec:   func(d *appsv1.Deployment) *appsv1.DeploymentSpec { return &d.Spec },
	status: func(d *appsv1.Deployment) *appsv1.DeploymentStatus { return &d.Status },
}

var deploymentTemplate = templated[*appsv1.Deployment]{
	template: func(obj *appsv1.Deployment) *corev1.PodTemplateSpec { return &obj.Spec.Template },
	path:     field.NewPath("spec", "template"),
	naming:   true,
}

func deployments(deps Deps) *Kind {
	rules := apps.Rules{Pods: deps.podRules()}
	return define(row[*appsv1.Deployment]{
		Name: "Deployment", Resource: "deployments", ShortNames: []string{"deploy"}, Categories: []string{"all"},
		Hub:              appsv1.SchemeGroupVersion,
		Default:          apps.DefaultDeployment,
		Check:            apps.CheckDeployment,
		FieldAnnotations: []string{appsv1.DeprecatedRollbackTo},
		Former: []Version{
			formerTwin[*appsv1beta2.Deployment](appsv1beta2.SchemeGroupVersion, apps.DefaultDeployment),
			former(appsv1beta1.SchemeGroupVersion, apps.DeploymentFromV1beta1, apps.DefaultDeploymentV1beta1),
			formerLike[*extensionsv1beta1.Deployment](extensionsv1beta1.SchemeGroupVersion, apps.DeploymentFromV1beta1, apps.DefaultDeploymentExtensions),
		},
		Strategy: strategy[*appsv1.Deployment]{
			PrepareCreate: deploymentTemplate.create(deploymentParts.create),
			PrepareUpdate: deploymentTemplate.update(func(ctx context.Context, new, old *appsv1.Deployment) {
				deploymentParts.update(ctx, new, old)
				// A change of annotations is one that the controller has to carry to replica sets.
				if new.Generation == old.Generation && !apiequality.Semantic.DeepEqual(new.Annotations, old.Annotations) {
					new.Generation++
				}
			}),
			Validate:            rules.ValidateDeployment,
			ValidateUpdate:      rules.ValidateDeploymentUpdate,
			Warnings:            deploymentTemplate.warnings,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*appsv1.Deployment]{
			PrepareUpdate: func(ctx context.Context, new, old *appsv1.Deployment) {
				deploymentParts.statusUpdateKeepLabels(ctx, new, old)
				apps.KeepRollback(new, old) // a part of the spec, though an annotation
			},
			ValidateUpdate: apps.ValidateDeploymentStatus,
			Reset:          []string{"spec", "metadata.labels"},
		},
		Scale: &scale[*appsv1.Deployment]{
			Get: func(d *appsv1.Deployment) (autoscalingv1.ScaleSpec, autoscalingv1.ScaleStatus) {
				return scaleOf(d.Spec.Replicas, d.Status.Replicas, d.Spec.Selector)
			},
			Set:  func(d *appsv1.Deployment, n int32) { d.Spec.Replicas = &n },
			Path: "spec.replicas",
		},
		Columns: apps.DeploymentColumns(),
		Row:     apps.DeploymentRow,
	})
}

// scaleOf makes a scale of what most workloads have. Malformed selectors don't get past validation.
func scaleOf(want *int32, have int32, selector *metav1.LabelSelector) (autoscalingv1.ScaleSpec, autoscalingv1.ScaleStatus) {
	status := autoscalingv1.ScaleStatus{Replicas: have}
	if s, err := metav1.LabelSelectorAsSelector(selector); err == nil {
		status.Selector = s.String()
	}
	var spec autoscalingv1.ScaleSpec
	if want != nil {
		spec.Replicas = *want
	}
	return spec, status
}
