package kinds

import (
	nodev1 "k8s.io/api/node/v1"
	nodev1alpha1 "k8s.io/api/node/v1alpha1"
	nodev1beta1 "k8s.io/api/node/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"

	"quintet.dev/quintet/components/apiserver/kinds/node"
)

func runtimeClasses() *Kind {
	return define(row[*nodev1.RuntimeClass]{
		Name: "RuntimeClass", Resource: "runtimeclasses", Cluster: true,
		Hub: nodev1.SchemeGroupVersion,
		Former: []Version{
			formerTwin[*nodev1beta1.RuntimeClass, *nodev1.RuntimeClass](nodev1beta1.SchemeGroupVersion, nil),
			former(nodev1alpha1.SchemeGroupVersion, node.FromV1alpha1, nil),
		},
		Strategy: strategy[*nodev1.RuntimeClass]{
			AnyFinalizer:   true,
			Validate:       node.Validate,
			ValidateAmong:  wholeFirst(whatever(node.Validate), node.ValidateChange),
			Warnings:       node.Warnings,
			ValidateName:   validation.NameIsDNSSubdomain,
			CreateOnUpdate: true,
		},
		Columns: node.Columns(),
		Row:     node.Row,
	})
}
