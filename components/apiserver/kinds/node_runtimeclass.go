package kinds

import (
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"quintet.dev/quintet/components/apiserver/kinds/node"
)

func runtimeClasses() *Kind {
	return define(row[*nodev1.RuntimeClass]{
		Name: "RuntimeClass", Resource: "runtimeclasses", Cluster: true,
		Hub: nodev1.SchemeGroupVersion,
		Strategy: strategy[*nodev1.RuntimeClass]{
			AnyFinalizer:   true,
			Validate:       node.Validate,
			ValidateAmong:  wholeFirst(whatever(node.Validate), node.ValidateChange),
			ValidateName:   validation.NameIsDNSSubdomain,
			CreateOnUpdate: true,
		},
		Columns: node.Columns(),
		Row:     node.Row,
	})
}
