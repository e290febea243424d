package handlers

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"quintet.dev/quintet/components/apiserver/handlers/generated"
)

//go:generate go run ./_pack generated/types.go

// builtInTypes describes all built-in types to structured merge, as client-go's apply configurations and the OpenAPI schemas do.
func builtInTypes(scheme *runtime.Scheme) managedfields.TypeConverter {
	return managedfields.NewSchemeTypeConverter(scheme, &typed.Parser{Schema: schema.Schema{Types: generated.Types}})
}
