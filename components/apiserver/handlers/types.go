package handlers

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/gob"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

//go:generate go run ./_pack generated/types.gob.gz

//go:embed generated/types.gob.gz
var packedTypes []byte

// builtInTypes describes all built-in types to structured merge, as client-go's apply configurations do.
func builtInTypes(scheme *runtime.Scheme) (managedfields.TypeConverter, error) {
	gob.Register(map[any]any{}) // what fields have by default
	gob.Register([]any{})
	z, err := gzip.NewReader(bytes.NewReader(packedTypes))
	if err != nil {
		return nil, err
	}
	parser := &typed.Parser{}
	if err := gob.NewDecoder(z).Decode(&parser.Schema); err != nil {
		return nil, err
	}
	return managedfields.NewSchemeTypeConverter(scheme, parser), nil
}
