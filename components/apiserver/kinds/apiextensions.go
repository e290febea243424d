package kinds

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"

	"quintet.dev/quintet/components/apiserver/kinds/apiextensions"
)

func customResourceDefinitions() *Kind {
	type CRD = *apiextensionsv1.CustomResourceDefinition
	return define(row[CRD]{
		Name: "CustomResourceDefinition", Resource: "customresourcedefinitions", ShortNames: []string{"crd", "crds"},
		Categories: []string{"api-extensions"}, Cluster: true,
		Prefix:  "apiextensions.k8s.io/customresourcedefinitions",
		Hub:     apiextensionsv1.SchemeGroupVersion,
		Default: apiextensions.Default, Check: apiextensions.Check,
		Others: []Version{storedDefinition()},
		Stored: apiextensionsv1beta1.SchemeGroupVersion, AsJSON: true, StatusNoTable: true,
		Strategy: strategy[CRD]{
			Meta: MetaNothing, AnyFinalizer: true,
			PrepareCreate: apiextensions.PrepareCreate, PrepareUpdate: apiextensions.PrepareUpdate,
			Validate: apiextensions.Validate, ValidateUpdate: apiextensions.ValidateUpdate, Warnings: apiextensions.Warnings,
			Held: apiextensions.Held, Terminate: apiextensions.Terminate, CollectedLater: true,
			StorePreconditions: true,
			Reset:              []string{"status"},
		},
		Status: &strategy[CRD]{
			Meta: MetaNothing, AnyFinalizer: true,
			PrepareUpdate: apiextensions.PrepareStatusUpdate, ValidateUpdate: apiextensions.ValidateStatusUpdate,
			Reset: []string{"spec"},
		},
	})
}

// storedDefinition is the version in which definitions lie in the store.
func storedDefinition() Version {
	type stored = *apiextensionsv1beta1.CustomResourceDefinition
	return Version{
		GroupVersion: apiextensionsv1beta1.SchemeGroupVersion, Unserved: true,
		New:     newObject[stored],
		Default: func(obj Object) { apiextensionsv1beta1.SetObjectDefaults_CustomResourceDefinition(obj.(stored)) },
		ToHub:   func(obj Object) (Object, error) { return apiextensions.FromV1beta1(obj.(stored)) },
		FromHub: func(hub Object) (Object, error) {
			return apiextensions.ToV1beta1(hub.(*apiextensionsv1.CustomResourceDefinition))
		},
	}
}
