package apps

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

const (
	namesOfContainers  = "Names of each container in the template."
	imagesOfContainers = "Images referenced by each container in the template."
)

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
	names, images := Containers(d.Spec.Template.Spec.Containers)
	return []any{
		d.Name, fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, show.Or(d.Spec.Replicas, 0)),
		int64(d.Status.UpdatedReplicas), int64(d.Status.AvailableReplicas), show.Age(d.CreationTimestamp),
		names, images, show.Selector(d.Spec.Selector),
	}
}

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
	names, images := Containers(r.Spec.Template.Spec.Containers)
	return []any{
		r.Name, int64(show.Or(r.Spec.Replicas, 0)), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas),
		show.Age(r.CreationTimestamp), names, images, show.Selector(r.Spec.Selector),
	}
}

// Containers lists names and images.
func Containers(cs []corev1.Container) (names, images string) {
	n, i := make([]string, len(cs)), make([]string, len(cs))
	for k := range cs {
		n[k], i[k] = cs[k].Name, cs[k].Image
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}
