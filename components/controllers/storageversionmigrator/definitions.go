package storageversionmigrator

import (
	"context"
	"fmt"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"quintet.dev/quintet/internal/conflict"
)

// definitionManager is the field manager of the status of definitions.
const definitionManager = "migration-runner-controller"

// beginDefinition tells, in the status of the resource's definition if it has one, that its objects are being migrated.
func (c *Controller) beginDefinition(ctx context.Context, m *migration) error {
	return c.mark(ctx, m.Spec.Resource,
		func(*apiextensionsv1.CustomResourceDefinition) (apiextensionsv1.CustomResourceDefinitionCondition, []string) {
			return apiextensionsv1.CustomResourceDefinitionCondition{
				Status: apiextensionsv1.ConditionTrue, Reason: "MigrationRunning",
				Message: fmt.Sprintf("Migration %s is running", m.Name),
			}, nil
		})
}

// finishDefinition tells of the end. If the definition stayed as it was when the migration began, nothing lies in the
// store in another version than the one that is stored now, and no other is said to be there.
func (c *Controller) finishDefinition(ctx context.Context, m *migration) error {
	return c.mark(ctx, m.Spec.Resource,
		func(crd *apiextensionsv1.CustomResourceDefinition) (apiextensionsv1.CustomResourceDefinitionCondition, []string) {
			return finished(crd, is(m, migrationv1beta1.MigrationSucceeded))
		})
}

// finished is the condition then, and the stored versions; nil leaves them as they are.
func finished(crd *apiextensionsv1.CustomResourceDefinition,
	succeeded bool) (apiextensionsv1.CustomResourceDefinitionCondition, []string) {
	c := apiextensionsv1.CustomResourceDefinitionCondition{
		Status: apiextensionsv1.ConditionFalse, Reason: "MigrationFailed", Message: "The migration has failed",
	}
	same := false
	for _, had := range crd.Status.Conditions {
		same = same || had.Type == apiextensionsv1.StorageMigrating && had.ObservedGeneration == crd.Generation
	}
	if !succeeded {
		return c, nil
	}
	c.Reason = "MigrationSucceeded"
	if !same {
		c.Message = "The migration has succeeded but the stored versions have not been updated due to a generation mismatch"
		return c, nil
	}
	c.Message = "The migration has succeeded and the stored versions have been updated"
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			return c, []string{v.Name}
		}
	}
	return c, nil
}

// mark applies a condition, and the stored versions unless they are nil, to the definition of a resource, if it has
// one.
func (c *Controller) mark(ctx context.Context, resource metav1.GroupResource,
	decide func(*apiextensionsv1.CustomResourceDefinition) (apiextensionsv1.CustomResourceDefinitionCondition,
		[]string)) error {
	definitions := c.sources.Dynamic.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	name := resource.Resource + "." + resource.Group
	err := conflict.Retry(retry.DefaultRetry, func() error {
		u, err := definitions.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, crd); err != nil {
			return err
		}
		condition, stored := decide(crd)
		patch, err := said(crd, condition, stored, c.now()).MarshalJSON()
		if err != nil {
			return err
		}
		_, err = definitions.Patch(ctx, name, types.ApplyPatchType, patch,
			metav1.PatchOptions{FieldManager: definitionManager, Force: new(true)}, "status")
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// said is the patch. It has the resourceVersion that was evaluated: the status is valid for no other.
func said(crd *apiextensionsv1.CustomResourceDefinition, c apiextensionsv1.CustomResourceDefinitionCondition,
	stored []string, now metav1.Time) *unstructured.Unstructured {
	status := map[string]any{"conditions": []any{map[string]any{
		"type": string(apiextensionsv1.StorageMigrating), "status": string(c.Status), "reason": c.Reason,
		"message":            c.Message,
		"lastTransitionTime": now.UTC().Format("2006-01-02T15:04:05Z07:00"), "observedGeneration": crd.Generation,
	}}}
	if stored != nil {
		versions := make([]any, len(stored))
		for i := range stored {
			versions[i] = stored[i]
		}
		status["storedVersions"] = versions
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiextensionsv1.SchemeGroupVersion.String(), "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": crd.Name, "resourceVersion": crd.ResourceVersion},
		"status":   status,
	}}
}
