package fieldmanager

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"quintet.dev/quintet/components/apiserver/fieldmanager/generated"
)

//go:generate go run ./_pack generated/types.go

// Types describe all built-in types to structured merge, as client-go's apply configurations and the OpenAPI schemas
// do. They are safe for concurrent use.
type Types struct {
	managedfields.TypeConverter
	scheme  *runtime.Scheme
	parser  *typed.Parser
	planner *planner
}

// NewTypes returns the types of a scheme, which doesn't change any more.
func NewTypes(scheme *runtime.Scheme) *Types {
	parser := &typed.Parser{Schema: smdschema.Schema{Types: generated.Types}}
	converter := managedfields.NewSchemeTypeConverter(scheme, parser)
	return &Types{converter, scheme, parser, newPlanner(&parser.Schema)}
}

// of is the type of a kind's objects, none of which has to be there.
func (t *Types) of(gvk schema.GroupVersionKind) (typed.ParseableType, error) {
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
