package crd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// strategy is how objects behave when they are written as a whole.
func (r *resource) strategy() api.Strategy[api.Object] {
	return api.Strategy[api.Object]{
		Meta: api.MetaNothing, AnyFinalizer: true,
		PrepareCreate: r.prepareCreate, PrepareUpdate: r.prepareUpdate,
		Validate: r.validate, ValidateAmong: r.validateUpdate, ValidateName: validation.NameIsDNSSubdomain,
		Warnings:    warnings,
		ResetFields: r.resetStatus(),
	}
}

// statusStrategy is how they behave when their status is written.
func (r *resource) statusStrategy() api.Strategy[api.Object] {
	return api.Strategy[api.Object]{
		AnyFinalizer:  true,
		PrepareUpdate: prepareStatus, ValidateAmong: r.validateStatus, ResetFields: r.resetAllButStatus(),
	}
}

func (r *resource) prepareCreate(ctx context.Context, obj api.Object) {
	if r.at(ctx).hasStatus() {
		delete(obj.(*unstructured.Unstructured).Object, "status")
	}
	obj.SetGeneration(1)
}

func (r *resource) prepareUpdate(ctx context.Context, obj, old api.Object) {
	now, before := obj.(*unstructured.Unstructured).Object, old.(*unstructured.Unstructured).Object
	if r.at(ctx).hasStatus() {
		if status, ok := before["status"]; ok {
			now["status"] = status
		} else {
			delete(now, "status")
		}
	}
	if !sameButMetadata(now, before) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
}

func sameButMetadata(a, b map[string]any) bool {
	for key, value := range a {
		other, ok := b[key]
		if key != "metadata" && (!ok || !apiequality.Semantic.DeepEqual(value, other)) {
			return false
		}
	}
	for key := range b {
		if _, ok := a[key]; !ok && key != "metadata" {
			return false
		}
	}
	return true
}

// prepareStatus takes the status over, and nothing else.
func prepareStatus(_ context.Context, obj, old api.Object) {
	now := obj.(*unstructured.Unstructured)
	status, has := now.Object["status"]
	managed := now.GetManagedFields()
	now.Object = old.(*unstructured.Unstructured).DeepCopy().Object
	now.SetManagedFields(managed)
	if has {
		now.Object["status"] = status
	} else {
		delete(now.Object, "status")
	}
}

// systemFinalizers are those that need no domain in their names.
var systemFinalizers = []string{metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents,
	string(corev1.FinalizerKubernetes)}

// warnings advise on the names of new finalizers.
func warnings(_ context.Context, obj, old api.Object) []string {
	var had []string
	if old != nil {
		had = old.GetFinalizers()
	}
	added := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()),
		func(f string) bool { return slices.Contains(had, f) })
	slices.Sort(added)
	var out []string
	for _, name := range slices.Compact(added) {
		for _, problem := range utilvalidation.IsQualifiedName(name) {
			out = append(out, fmt.Sprintf("metadata.finalizers: %q: %s", name, problem))
		}
		if strings.Contains(name, "/") || slices.Contains(systemFinalizers, name) {
			continue
		}
		path := ""
		if strings.Contains(name, ".") {
			path = " including a path (/)"
		}
		out = append(out, fmt.Sprintf(
			"metadata.finalizers: %q: prefer a domain-qualified finalizer name%s to avoid accidental conflicts with other "+
				"finalizer writers", name, path))
	}
	return out
}
