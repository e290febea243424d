package operator

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	acapps "k8s.io/client-go/applyconfigurations/apps/v1"
	accore "k8s.io/client-go/applyconfigurations/core/v1"
	acmeta "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	// Finalizer keeps a Website until its entry in Hosts is gone, which no owner reference can do: it is elsewhere.
	Finalizer = "example.com/host"
	// Owner is the manager of the fields that the operator applies.
	Owner = client.FieldOwner("website-operator")
	// Ready is the condition that is true when all replicas serve.
	Ready = "Ready"

	hostIndex = "spec.host"
)

// Hosts is the ConfigMap that maps websites to hosts.
var Hosts = client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "hosts"}

// Options of an operator.
type Options struct {
	Webhooks bool   // serve the webhooks
	Image    string // of the web server, which has the program /httpd
}

// Setup adds the reconciler, and the webhooks if there are to be any, to a manager.
func Setup(mgr ctrl.Manager, o Options) error {
	byHost := func(o client.Object) []string { return []string{o.(*Website).Spec.Host} }
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &Website{}, hostIndex, byHost); err != nil {
		return err
	}
	if o.Webhooks {
		hook := &webhook{reader: mgr.GetClient()}
		if err := ctrl.NewWebhookManagedBy(mgr,
			&Website{}).WithDefaulter(hook).WithValidator(hook).Complete(); err != nil {
			return err
		}
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&Website{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.Service{}).
		Complete(&reconciler{Client: mgr.GetClient(), image: o.Image})
}

// reconciler makes of each Website a ConfigMap, a Deployment and a Service.
type reconciler struct {
	client.Client
	image string
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	site := &Website{}
	if err := r.Get(ctx, request.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.release(ctx, site)
	}
	if controllerutil.AddFinalizer(site, Finalizer) {
		return ctrl.Result{}, r.Update(ctx, site) // which brings it here again
	}
	if err := r.enter(ctx, site); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.apply(ctx, site); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, site)
}

// enter writes the host into Hosts, as a manager of its own, so that each site owns its entry.
func (r *reconciler) enter(ctx context.Context, site *Website) error {
	entry := accore.ConfigMap(Hosts.Name,
		Hosts.Namespace).WithData(map[string]string{site.Spec.Host: site.Namespace + "." + site.Name})
	return r.Apply(ctx, entry, client.FieldOwner(site.UID), client.ForceOwnership)
}

// release takes the host out of Hosts, by applying that the site wants nothing there, and lets the Website go.
func (r *reconciler) release(ctx context.Context, site *Website) error {
	if !controllerutil.ContainsFinalizer(site, Finalizer) {
		return nil
	}
	if err := r.Apply(ctx, accore.ConfigMap(Hosts.Name, Hosts.Namespace), client.FieldOwner(site.UID),
		client.ForceOwnership); err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(site, Finalizer)
	return client.IgnoreNotFound(r.Update(ctx, site))
}

func (r *reconciler) apply(ctx context.Context, site *Website) error {
	owner := acmeta.OwnerReference().WithAPIVersion(GroupVersion.String()).WithKind("Website").WithName(site.Name).
		WithUID(site.UID).WithController(true).WithBlockOwnerDeletion(true)
	page := accore.ConfigMap(site.Name, site.Namespace).WithOwnerReferences(owner).
		WithData(map[string]string{"index.html": site.Spec.Page})
	labels := map[string]string{"website": site.Name}
	service := accore.Service(site.Name, site.Namespace).WithOwnerReferences(owner).WithSpec(accore.ServiceSpec().
		WithSelector(labels).WithPorts(accore.ServicePort().WithPort(80).WithTargetPort(intstr.FromString("http"))))
	deployment := acapps.Deployment(site.Name,
		site.Namespace).WithOwnerReferences(owner).WithSpec(acapps.DeploymentSpec().
		WithReplicas(ptr.Deref(site.Spec.Replicas, 2)).WithSelector(acmeta.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(accore.PodTemplateSpec().WithLabels(labels).WithSpec(r.podSpec(site))))
	for _, object := range []runtime.ApplyConfiguration{page, service, deployment} {
		if err := r.Apply(ctx, object, Owner, client.ForceOwnership); err != nil {
			return err
		}
	}
	return nil
}

// podSpec is of a pod that serves the page.
func (r *reconciler) podSpec(site *Website) *accore.PodSpecApplyConfiguration {
	const port = "http"
	probe := accore.Probe().WithPeriodSeconds(1).
		WithHTTPGet(accore.HTTPGetAction().WithPath("/").WithPort(intstr.FromString(port)))
	server := accore.Container().WithName("server").WithImage(r.image).WithCommand("/httpd").
		WithPorts(accore.ContainerPort().WithName(port).WithContainerPort(8080)).WithReadinessProbe(probe).
		WithVolumeMounts(accore.VolumeMount().WithName("page").WithMountPath("/www"))
	volume := accore.Volume().WithName("page").WithConfigMap(accore.ConfigMapVolumeSource().WithName(site.Name))
	return accore.PodSpec().WithContainers(server).WithVolumes(volume).WithTerminationGracePeriodSeconds(1)
}

// report writes to the status whether all replicas are ready.
func (r *reconciler) report(ctx context.Context, site *Website) error {
	deployment := &appsv1.Deployment{}
	if err := r.Get(ctx, client.ObjectKeyFromObject(site), deployment); err != nil {
		return client.IgnoreNotFound(err) // the cache doesn't have it yet; its event comes
	}
	condition := metav1.Condition{Type: Ready, Status: metav1.ConditionFalse, Reason: "Replicas",
		ObservedGeneration: site.Generation}
	wanted := ptr.Deref(site.Spec.Replicas, 2)
	if deployment.Status.ReadyReplicas >= wanted {
		condition.Status = metav1.ConditionTrue
	}
	condition.Message = fmt.Sprintf("%d of %d replicas are ready", deployment.Status.ReadyReplicas, wanted)
	before := site.deepCopy()
	if !meta.SetStatusCondition(&site.Status.Conditions, condition) {
		return nil
	}
	return r.Status().Patch(ctx, site, client.MergeFrom(before))
}

// webhook defaults and validates Websites.
type webhook struct{ reader client.Reader }

// Default implements admission.Defaulter.
func (*webhook) Default(_ context.Context, site *Website) error {
	if site.Spec.Replicas == nil {
		site.Spec.Replicas = ptr.To[int32](2)
	}
	return nil
}

// ValidateCreate implements admission.Validator, as do the methods below.
func (w *webhook) ValidateCreate(ctx context.Context, site *Website) (admission.Warnings, error) {
	var others WebsiteList
	if err := w.reader.List(ctx, &others, client.MatchingFields{hostIndex: site.Spec.Host}); err != nil {
		return nil, err
	}
	if len(others.Items) > 0 {
		return nil, fmt.Errorf("host %s belongs to %s/%s", site.Spec.Host, others.Items[0].Namespace,
			others.Items[0].Name)
	}
	if *site.Spec.Replicas == 0 {
		return admission.Warnings{"nothing will serve " + site.Spec.Host}, nil
	}
	return nil, nil
}

// ValidateUpdate has nothing to say: the schema keeps the host.
func (*webhook) ValidateUpdate(context.Context, *Website, *Website) (admission.Warnings, error) {
	return nil, nil
}

// ValidateDelete isn't asked.
func (*webhook) ValidateDelete(context.Context, *Website) (admission.Warnings, error) {
	return nil, nil
}
