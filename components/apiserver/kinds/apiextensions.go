package kinds

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"quintet.dev/quintet/components/apiserver/kinds/apiextensions"
)

func customResourceDefinitions() *Kind {
	type CRD = *apiextensionsv1.CustomResourceDefinition
	return define(row[CRD]{
		Name: "CustomResourceDefinition", Resource: "customresourcedefinitions", ShortNames: []string{"crd", "crds"},
		Categories: []string{"api-extensions"}, Cluster: true,
		Prefix:  "apiextensions.k8s.io/customresourcedefinitions",
		Hub:     apiextensionsv1.SchemeGroupVersion,
		Default: apiextensionsv1.SetObjectDefaults_CustomResourceDefinition,
		Strategy: strategy[CRD]{
			PrepareCreate: apiextensions.PrepareCreate, PrepareUpdate: apiextensions.PrepareUpdate,
			Validate: apiextensions.Validate, ValidateUpdate: apiextensions.ValidateUpdate, Warnings: apiextensions.Warnings,
			Held: apiextensions.Held, Terminate: apiextensions.Terminate,
			Reset: []string{"status"},
		},
		Status: &strategy[CRD]{
			PrepareUpdate: apiextensions.PrepareStatusUpdate, ValidateUpdate: apiextensions.ValidateStatusUpdate,
			Reset: []string{"spec"},
		},
	})
}
