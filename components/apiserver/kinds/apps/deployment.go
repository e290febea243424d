package apps

import (
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

var deploymentParts = api.Parts[*appsv1.Deployment, appsv1.DeploymentSpec, appsv1.DeploymentStatus]{
	Spec:   func(d *appsv1.Deployment) *appsv1.DeploymentSpec { return &d.Spec },
	Status: func(d *appsv1.Deployment) *appsv1.DeploymentStatus { return &d.Status },
}

var deploymentTemplate = podspec.Templated[*appsv1.Deployment]{
	Template: func(obj *appsv1.Deployment) *corev1.PodTemplateSpec { return &obj.Spec.Template },
	Path:     field.NewPath("spec", "template"),
	Naming:   true,
}

func deployments(deps api.Deps) *api.Kind {
	rules := Rules{Pods: podspec.RulesOf(deps)}
	return api.Define(api.Row[*appsv1.Deployment]{
		Name: "Deployment", Resource: "deployments", ShortNames: []string{"deploy"}, Categories: []string{"all"},
		Hub:              appsv1.SchemeGroupVersion,
		Default:          DefaultDeployment,
		Check:            CheckDeployment,
		FieldAnnotations: []string{appsv1.DeprecatedRollbackTo},
		RemovedVersions: []api.Version{
			api.RemovedTwin[*appsv1beta2.Deployment](appsv1beta2.SchemeGroupVersion, DefaultDeployment),
			api.RemovedVersion(appsv1beta1.SchemeGroupVersion, DeploymentFromV1beta1, DefaultDeploymentV1beta1),
			api.RemovedLike[*extensionsv1beta1.Deployment](extensionsv1beta1.SchemeGroupVersion, DeploymentFromV1beta1,
				DefaultDeploymentExtensions),
		},
		Strategy: api.Strategy[*appsv1.Deployment]{
			PrepareCreate: deploymentTemplate.Create(deps.Pods, deploymentParts.Create),
			PrepareUpdate: deploymentTemplate.Update(deps.Pods, func(ctx context.Context, new, old *appsv1.Deployment) {
				deploymentParts.Update(ctx, new, old)
				// A change of annotations is one that the controller has to carry to replica sets.
				if new.Generation == old.Generation &&
					!apiequality.Semantic.DeepEqual(new.Annotations, old.Annotations) {
					new.Generation++
				}
			}),
			Validate:            api.OfObject(rules.ValidateDeployment),
			ValidateUpdate:      api.OfChange(rules.ValidateDeploymentUpdate),
			Warnings:            api.OfChange(deploymentTemplate.Warnings),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &api.Strategy[*appsv1.Deployment]{
			PrepareUpdate: func(ctx context.Context, new, old *appsv1.Deployment) {
				deploymentParts.StatusUpdateKeepLabels(ctx, new, old)
				KeepRollback(new, old) // a part of the spec, though an annotation
			},
			ValidateUpdate: api.OfChange(ValidateDeploymentStatus),
			Reset:          []string{"spec", "metadata.labels"},
		},
		Scale: api.ReplicasScale(func(d *appsv1.Deployment) (autoscalingv1.ScaleSpec, autoscalingv1.ScaleStatus) {
			return api.ScaleOf(d.Spec.Replicas, d.Status.Replicas, d.Spec.Selector)
		},
			func(d *appsv1.Deployment, n int32) { d.Spec.Replicas = &n }),
		Columns: DeploymentColumns(),
		Row:     DeploymentRow,
	})
}

// DeploymentColumns are the columns of deployments.
func DeploymentColumns() show.Columns {
	spec, status := appsv1.DeploymentSpec{}.SwaggerDoc(), appsv1.DeploymentStatus{}.SwaggerDoc()
	return show.Name().
		String("Ready", "Number of the pod with ready state").
		String("Up-to-date", status["updatedReplicas"]).
		String("Available", status["availableReplicas"]).
		Age().
		Wide("Containers", namesOfContainers).
		Wide("Images", imagesOfContainers).
		Wide("Selector", spec["selector"])
}

// DeploymentRow are the cells of a deployment.
func DeploymentRow(d *appsv1.Deployment) []any {
	names, images := show.Containers(d.Spec.Template.Spec.Containers)
	return []any{
		d.Name, fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, show.Or(d.Spec.Replicas, 0)),
		int64(d.Status.UpdatedReplicas), int64(d.Status.AvailableReplicas), show.Age(d.CreationTimestamp),
		names, images, show.Selector(d.Spec.Selector),
	}
}

// DefaultDeployment sets the defaults of a deployment.
func DefaultDeployment(d *appsv1.Deployment) {
	podspec.DefaultTemplate(&d.Spec.Template)
	if n, err := rollbackTo(d); err == nil {
		annotate(&d.ObjectMeta, appsv1.DeprecatedRollbackTo, n)
	}
	setDefault(&d.Spec.Replicas, 1)
	setDefault(&d.Spec.RevisionHistoryLimit, 10)
	setDefault(&d.Spec.ProgressDeadlineSeconds, 600)
	s := &d.Spec.Strategy
	if s.Type == "" {
		s.Type = appsv1.RollingUpdateDeploymentStrategyType
	}
	if s.Type == appsv1.RollingUpdateDeploymentStrategyType {
		if s.RollingUpdate == nil {
			s.RollingUpdate = &appsv1.RollingUpdateDeployment{}
		}
		setDefault(&s.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		setDefault(&s.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
}

// CheckDeployment tells of an annotation of the revision to go back to that is no number.
func CheckDeployment(d *appsv1.Deployment) error {
	_, err := rollbackTo(d)
	return err
}

// rollbackTo is the revision to go back to, "" for none. It lives in an annotation since the field is gone from the
// API.
func rollbackTo(d *appsv1.Deployment) (string, error) {
	text := d.Annotations[appsv1.DeprecatedRollbackTo]
	if text == "" {
		return "", nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return "", fmt.Errorf("failed to parse annotation[%s]=%s as int64: %w", appsv1.DeprecatedRollbackTo, text, err)
	}
	return strconv.FormatInt(n, 10), nil
}

// KeepRollback gives a deployment the revision to go back to of another.
func KeepRollback(new, old *appsv1.Deployment) {
	annotate(&new.ObjectMeta, appsv1.DeprecatedRollbackTo, old.Annotations[appsv1.DeprecatedRollbackTo])
}
