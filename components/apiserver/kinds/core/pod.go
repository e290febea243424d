package core

import (
	"context"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/equality"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

var podParts = api.Parts[*corev1.Pod, corev1.PodSpec, corev1.PodStatus]{
	Spec:   func(p *corev1.Pod) *corev1.PodSpec { return &p.Spec },
	Status: func(p *corev1.Pod) *corev1.PodStatus { return &p.Status },
}

func pods(deps api.Deps) *api.Kind {
	rules, parts := podspec.RulesOf(deps), partsOfPods{deps.Pods}
	return api.Define(api.Row[*corev1.Pod]{
		Name: "Pod", Resource: "pods", ShortNames: []string{"po"}, Categories: []string{"all"},
		Hub:     corev1.SchemeGroupVersion,
		Default: podspec.DefaultPod,
		Strategy: api.Strategy[*corev1.Pod]{
			Meta: api.MetaAll,
			PrepareCreate: func(ctx context.Context, p *corev1.Pod) {
				for _, text := range podspec.PrepareCreate(deps.Pods, p, deps.Now()) {
					warning.AddWarning(ctx, "", text)
				}
			},
			PrepareUpdate: func(ctx context.Context, new, old *corev1.Pod) {
				podspec.DropDisabled(deps.Pods, &new.Spec, &old.Spec)
				podParts.Update(ctx, new, old)
			},
			Validate:            api.OfObject(rules.ValidateCreate),
			ValidateUpdate:      api.OfChange(rules.ValidateUpdate),
			Warnings:            api.OfChange(podspec.PodWarnings),
			ValidateName:        checks.SubdomainOf,
			UnconditionalUpdate: true,
			ReturnDeleted:       true,
			Canonicalize:        podspec.SyncServiceAccount,
			Grace:               podGrace,
			Reset:               []string{"status"},
		},
		Status: &api.Strategy[*corev1.Pod]{
			PrepareUpdate:  prepareStatus,
			ValidateUpdate: api.OfChange(podspec.StatusRules{NominateBound: deps.NominateBound}.Validate),
			Warnings:       api.OfChange(podspec.StatusWarnings),
			Reset:          []string{"spec", "metadata.deletionTimestamp", "metadata.ownerReferences"},
		},
		Subresources: []api.Subresource{
			api.Handled("attach", "create", "get"),
			{Name: "binding", Verbs: []string{"create"}, Body: corev1.SchemeGroupVersion.WithKind("Binding")},
			{Name: "ephemeralcontainers", Verbs: api.ReadWriteVerbs(), Strategy: podStrategy(api.Strategy[*corev1.Pod]{
				PrepareUpdate: parts.ephemeral,
				ValidateAmong: metaFirst(rules.ValidateEphemeralUpdate),
			})},
			{Name: "eviction", Verbs: []string{"create"}, Body: policyv1.SchemeGroupVersion.WithKind("Eviction")},
			api.Handled("exec", "create", "get"),
			api.Handled("log", "get"),
			api.Handled("portforward", "create", "get"),
			api.Handled("proxy", "create", "delete", "get", "patch", "update"),
			{Name: "resize", Verbs: api.ReadWriteVerbs(), Strategy: podStrategy(api.Strategy[*corev1.Pod]{
				PrepareUpdate: parts.resize,
				ValidateAmong: metaFirst(rules.ValidateResize),
			})},
		},
		Columns:       PodColumns(),
		Row:           PodRow,
		RowConditions: PodRowConditions,
		Fields: map[string]func(*corev1.Pod) string{
			"spec.host":               func(p *corev1.Pod) string { return p.Spec.NodeName }, // as it was called once
			"spec.nodeName":           func(p *corev1.Pod) string { return p.Spec.NodeName },
			"spec.restartPolicy":      func(p *corev1.Pod) string { return string(p.Spec.RestartPolicy) },
			"spec.schedulerName":      func(p *corev1.Pod) string { return p.Spec.SchedulerName },
			"spec.serviceAccountName": func(p *corev1.Pod) string { return p.Spec.ServiceAccountName },
			"spec.hostNetwork":        func(p *corev1.Pod) string { return strconv.FormatBool(p.Spec.HostNetwork) },
			"status.phase":            func(p *corev1.Pod) string { return string(p.Status.Phase) },
			"status.podIP":            podIP,
			// which may be asked for, but isn't known
			"status.podIPs":            func(*corev1.Pod) string { return "" },
			"status.nominatedNodeName": func(p *corev1.Pod) string { return p.Status.NominatedNodeName },
		},
		Indexed: []string{"spec.nodeName"},
	})
}

// podStrategy makes the strategy of a subresource of pods.
func podStrategy(s api.Strategy[*corev1.Pod]) *api.Strategy[api.Object] {
	out := s.Erase(corev1.SchemeGroupVersion)
	return &out
}

// metaFirst gives a check of a pod the faults of its metadata, those of the change first.
func metaFirst(check func(new, old *corev1.Pod, meta field.ErrorList) field.ErrorList) func(ctx context.Context,
	new, old *corev1.Pod, meta api.MetaErrors) field.ErrorList {
	return func(_ context.Context, new, old *corev1.Pod, meta api.MetaErrors) field.ErrorList {
		return check(new, old, slices.Concat(meta.Change, meta.Object))
	}
}

func podIP(p *corev1.Pod) string {
	if len(p.Status.PodIPs) > 0 {
		return p.Status.PodIPs[0].IP
	}
	return p.Status.PodIP
}

// podGrace: a pod that no kubelet has, or that has ended, needs no time to stop.
func podGrace(_ context.Context, p *corev1.Pod, options *metav1.DeleteOptions) bool {
	var seconds int64
	switch {
	case options == nil:
		return false
	case options.GracePeriodSeconds != nil:
		seconds = *options.GracePeriodSeconds
	case p.Spec.TerminationGracePeriodSeconds != nil:
		seconds = *p.Spec.TerminationGracePeriodSeconds
	}
	if p.Spec.NodeName == "" || podspec.Terminal(p) {
		seconds = 0
	}
	if seconds < 0 {
		seconds = 1
	}
	options.GracePeriodSeconds = &seconds
	return true
}

// prepareStatus lets the kubelet and the scheduler write the status, and nothing that decides on the pod's life.
func prepareStatus(ctx context.Context, new, old *corev1.Pod) {
	podParts.StatusUpdate(ctx, new, old)
	podspec.SyncStatusIPs(&new.Status)
	new.DeletionTimestamp = old.DeletionTimestamp
	new.OwnerReferences = old.OwnerReferences
	if new.Status.QOSClass == "" { // old kubelets leave it out
		new.Status.QOSClass = old.Status.QOSClass
	}
	podspec.KeepObserved(&new.Status, &old.Status)
}

// partsOfPods prepares updates of subresources that write a part of the spec.
type partsOfPods struct{ on api.PodFeatures }

// ephemeral takes nothing of new but its ephemeral containers.
func (s partsOfPods) ephemeral(_ context.Context, new, old *corev1.Pod) {
	wanted := new.Spec.EphemeralContainers
	restore(new, old)
	new.Spec.EphemeralContainers = wanted
	s.bump(new, old)
}

// resize takes nothing of new but the resources and resize policies of its containers.
func (s partsOfPods) resize(_ context.Context, new, old *corev1.Pod) {
	containers, inits, whole := new.Spec.Containers, new.Spec.InitContainers, new.Spec.Resources
	if len(containers) != len(old.Spec.Containers) || len(inits) != len(old.Spec.InitContainers) {
		return // which validation refuses
	}
	restore(new, old)
	new.Spec.Containers = podspec.Resized(new.Spec.Containers, containers)
	new.Spec.InitContainers = podspec.Resized(new.Spec.InitContainers, inits)
	if whole != nil || old.Spec.Resources != nil {
		new.Spec.Resources = whole
	}
	s.bump(new, old)
}

// restore makes new the old pod again, but for the metadata that writes of a status leave alone as well.
func restore(new, old *corev1.Pod) {
	old.Spec.DeepCopyInto(&new.Spec)
	old.Status.DeepCopyInto(&new.Status)
	metav1.ResetObjectMetaForStatus(new, old)
}

// bump drops what belongs to features that are off, and raises the generation if something still changes.
func (s partsOfPods) bump(new, old *corev1.Pod) {
	podspec.DropDisabled(s.on, &new.Spec, &old.Spec)
	if !equality.Semantic(&new.Spec, &old.Spec) {
		new.Generation = old.Generation + 1
	}
}

func bindings(deps api.Deps) *api.Kind {
	return api.Define(api.Row[*corev1.Binding]{
		Name: "Binding", Resource: "bindings",
		Hub:        corev1.SchemeGroupVersion,
		CreateFunc: api.OrUnavailable("bindings", deps.Bind),
	})
}
