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
			Meta: MetaAll, AnyFinalizer: true,
			Validate:       node.Validate,
			ValidateUpdate: node.ValidateUpdate,
			ValidateName:   validation.NameIsDNSSubdomain,
			CreateOnUpdate: true,
		},
		Columns: node.Columns(),
		Row:     node.Row,
	})
}
