package handlers

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"quintet.dev/quintet/components/apiserver/books"
	"quintet.dev/quintet/components/apiserver/handlers/generated"
)

//go:generate go run ./_pack generated/types.go

// builtInTypes describes all built-in types to structured merge, as client-go's apply configurations and the OpenAPI schemas do.
type builtInTypes struct {
	managedfields.TypeConverter
	scheme  *runtime.Scheme
	parser  *typed.Parser
	planner *books.Planner
}

func newBuiltInTypes(scheme *runtime.Scheme) *builtInTypes {
	parser := &typed.Parser{Schema: smdschema.Schema{Types: generated.Types}}
	return &builtInTypes{managedfields.NewSchemeTypeConverter(scheme, parser), scheme, parser, books.NewPlanner(&parser.Schema)}
}

// of is the type of a kind's objects, none of which has to be there.
func (t *builtInTypes) of(gvk schema.GroupVersionKind) (typed.ParseableType, error) {
	name, err := t.scheme.ToOpenAPIDefinitionName(gvk)
	if err != nil {
		return typed.ParseableType{}, err
	}
	of := t.parser.Type(name)
	if !of.IsValid() {
		return of, fmt.Errorf("no type %s describes %s", name, gvk)
	}
	return of, nil
}
