// Package runner is an operator: for each ConfigMap labelled example.com/run it keeps a Deployment of the ConfigMap's
// name, whose pods run data.image with the words of data.command.
package runner

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Label is on ConfigMaps that ask for a Deployment.
const Label = "example.com/run"

// Reconciler keeps the Deployments.
type Reconciler struct{ Client client.Client }

// Setup adds the reconciler to a manager. Tests of one process may do so several times.
func Setup(mgr ctrl.Manager) error {
	again := true
	return ctrl.NewControllerManagedBy(mgr).Named("runner").For(&corev1.ConfigMap{}).Owns(&appsv1.Deployment{}).
		WithOptions(controller.Options{SkipNameValidation: &again}).Complete(&Reconciler{mgr.GetClient()})
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var asked corev1.ConfigMap
	if err := r.Client.Get(ctx, request.NamespacedName, &asked); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, ok := asked.Labels[Label]; !ok || asked.DeletionTimestamp != nil {
		return ctrl.Result{}, nil // its Deployment goes with it: the garbage collector sees to that
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: asked.Namespace, Name: asked.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		labels := map[string]string{Label: asked.Name}
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		template := &deployment.Spec.Template
		template.Labels = labels
		if len(template.Spec.Containers) == 0 {
			template.Spec.Containers = make([]corev1.Container, 1)
		}
		container := &template.Spec.Containers[0]
		container.Name, container.Image = "main", asked.Data["image"]
		container.Command = strings.Fields(asked.Data["command"])
		return controllerutil.SetControllerReference(&asked, deployment, r.Client.Scheme())
	})
	return ctrl.Result{}, err
}
