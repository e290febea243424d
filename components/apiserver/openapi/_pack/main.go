// Program pack writes the schemas that openapi-gen has made as Go code into compressed files, one per package of types.
// They are smaller than the code, and use no memory until they are requested.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	builderutil "k8s.io/kube-openapi/pkg/builder3/util"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/schemamutation"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/openapi/_pack/definitions"
)

// definition is one entry of a packed file.
type definition struct {
	V2           json.RawMessage `json:"v2"`
	V3           json.RawMessage `json:"v3"`
	Dependencies []string        `json:"deps,omitempty"`
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: pack DIRECTORY")
	}
	packages, err := pack()
	if err == nil {
		err = write(os.Args[1], packages)
	}
	if err != nil {
		log.Fatal("pack: ", err)
	}
}

func pack() (map[string]map[string]definition, error) {
	made := definitions.GetOpenAPIDefinitions(func(name string) spec.Ref {
		return spec.MustCreateRef("#/definitions/" + name)
	})
	kinds := kindsByModel()
	packages := map[string]map[string]definition{}
	for name, d := range made {
		if gvks := kinds[name]; len(gvks) > 0 {
			d.Schema.AddExtension("x-kubernetes-group-version-kind", gvks)
		}
		v2, err := json.Marshal(forV2(d))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		v3, err := json.Marshal(forV3(d))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		slices.Sort(d.Dependencies)
		pkg := name[:strings.LastIndexByte(name, '.')]
		if packages[pkg] == nil {
			packages[pkg] = map[string]definition{}
		}
		packages[pkg][name] = definition{V2: v2, V3: v3, Dependencies: slices.Compact(d.Dependencies)}
	}
	return packages, nil
}

// forV2 takes the form for OpenAPI v2 where a type has one, and leaves out defaults, which v2 doesn't tell.
func forV2(d common.OpenAPIDefinition) *spec.Schema {
	s := d.Schema
	if v2, ok := s.Extensions[common.ExtensionV2Schema].(spec.Schema); ok {
		s = v2
	}
	walker := schemamutation.Walker{
		RefCallback: schemamutation.RefCallbackNoop,
		SchemaCallback: func(s *spec.Schema) *spec.Schema {
			if s.Default == nil {
				return s
			}
			pruned := *s
			pruned.Default = nil
			return &pruned
		},
	}
	return walker.WalkSchema(&s)
}

// forV3 wraps references that stand beside other things, which JSON schema would ignore.
func forV3(d common.OpenAPIDefinition) *spec.Schema {
	s := d.Schema
	if _, ok := s.Extensions[common.ExtensionV2Schema]; ok {
		s.VendorExtensible.Extensions = maps.Clone(s.Extensions)
		delete(s.Extensions, common.ExtensionV2Schema)
	}
	walker := schemamutation.Walker{
		SchemaCallback: schemamutation.SchemaCallBackNoop,
		RefCallback: func(ref *spec.Ref) *spec.Ref {
			moved := spec.MustCreateRef(strings.Replace(ref.String(), "#/definitions/", "#/components/schemas/", 1))
			return &moved
		},
	}
	return builderutil.WrapRefs(walker.WalkSchema(&s))
}

// kindsByModel finds the kinds that each type is registered under.
func kindsByModel() map[string][]map[string]any {
	scheme := codec.NewScheme()
	known := scheme.AllKnownTypes()
	out := map[string][]map[string]any{}
	gvks := slices.SortedFunc(maps.Keys(known),
		func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	for _, gvk := range gvks {
		if gvk.Version == "__internal" {
			continue
		}
		name := util.GetCanonicalTypeName(reflect.New(known[gvk]).Interface())
		if strings.HasPrefix(name, "io.k8s.api.") && !strings.Contains(name, "."+gvk.Version+".") {
			continue // taken in that version, too, but of another
		}
		out[name] = append(out[name], map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind})
	}
	return out
}

func write(dir string, packages map[string]map[string]definition) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range packages {
		text, err := json.Marshal(content)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if _, err := z.Write(text); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name+".json.gz"), packed.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
