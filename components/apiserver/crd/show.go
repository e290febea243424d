package crd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// printed are the columns that a version shows besides the name.
func (v *version) printed() []apiextensionsv1.CustomResourceColumnDefinition {
	if len(v.spec.AdditionalPrinterColumns) > 0 {
		return v.spec.AdditionalPrinterColumns
	}
	return []apiextensionsv1.CustomResourceColumnDefinition{{
		Name: "Age", Type: "date", Description: metadataDoc()["creationTimestamp"],
		JSONPath: ".metadata.creationTimestamp",
	}}
}

func (v *version) columns() []metav1.TableColumnDefinition {
	out := []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: metadataDoc()["name"]}}
	for _, c := range v.printed() {
		description := c.Description
		if description == "" {
			description = "Custom resource definition column (in JSONPath format): " + c.JSONPath
		}
		out = append(out, metav1.TableColumnDefinition{
			Name: c.Name, Type: c.Type, Format: c.Format, Description: description, Priority: c.Priority,
		})
	}
	return out
}

// tabler makes the rows of a table.
type tabler interface {
	ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error)
}

// row makes the cells of an object in this version.
func (v *version) row() func(api.Object) []any {
	table := sync.OnceValues(func() (tabler, error) { return tableconvertor.New(v.printed()) })
	return func(obj api.Object) []any {
		t, err := table()
		if err != nil {
			return []any{obj.GetName()}
		}
		shown, err := t.ConvertToTable(context.Background(), obj, &metav1.TableOptions{NoHeaders: true})
		if err != nil || len(shown.Rows) == 0 {
			return []any{obj.GetName()}
		}
		return shown.Rows[0].Cells
	}
}

// scale is how a version shows and takes replicas.
func (v *version) scale(versions map[string]*version) *api.Scale {
	spec := v.scaleSpec()
	out := &api.Scale{
		Get: func(obj api.Object) (autoscalingv1.ScaleSpec, autoscalingv1.ScaleStatus) {
			shown, _, _ := scaleIn(spec, obj) // what can't be read, Check tells
			return shown.Spec, shown.Status
		},
		Set: func(obj api.Object, replicas int32) error {
			return unstructured.SetNestedField(obj.(*unstructured.Unstructured).Object, int64(replicas),
				steps(spec.SpecReplicasPath)...)
		},
		Check: func(obj api.Object) error {
			_, _, err := scaleIn(spec, obj)
			return err
		},
		Has: func(obj api.Object) bool {
			_, has, _ := scaleIn(spec, obj)
			return has
		},
		Field:        spec.SpecReplicasPath,
		ReplicasPath: map[string]fieldpath.Path{},
	}
	for _, other := range versions {
		var path fieldpath.Path
		if s := other.scaleSpec(); s != nil {
			for _, step := range steps(s.SpecReplicasPath) {
				path = append(path, fieldpath.PathElement{FieldName: &step})
			}
		}
		out.ReplicasPath[other.gvk.GroupVersion().String()] = path
	}
	return out
}

// scaleIn is what an object says of replicas, and whether it does so of those that are wanted.
func scaleIn(spec *apiextensionsv1.CustomResourceSubresourceScale, obj api.Object) (out autoscalingv1.Scale, has bool,
	err error) {
	content := obj.(*unstructured.Unstructured).Object
	wanted, has, err := unstructured.NestedInt64(content, steps(spec.SpecReplicasPath)...)
	if err != nil {
		return out, false, err
	}
	there, _, err := unstructured.NestedInt64(content, steps(spec.StatusReplicasPath)...)
	if err != nil {
		return out, false, err
	}
	if path := spec.LabelSelectorPath; path != nil && *path != "" {
		if out.Status.Selector, _, err = unstructured.NestedString(content, steps(*path)...); err != nil {
			return out, false, err
		}
	}
	out.Spec.Replicas, out.Status.Replicas = int32(wanted), int32(there)
	return out, has, nil
}

// steps takes a simple JSON path apart.
func steps(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// selectable lets field selectors name the fields that the versions say. As versions differ, the table knows them by
// version and path.
func (r *resource) selectable() {
	r.kind.Fields = map[string]func(api.Object) string{}
	for i := range r.kind.Versions {
		out := &r.kind.Versions[i]
		v := r.versions[out.Version]
		out.Fields = map[string]string{"metadata.name": "metadata.name"}
		if r.kind.Namespaced {
			out.Fields["metadata.namespace"] = "metadata.namespace"
		}
		for _, f := range v.spec.SelectableFields {
			path := strings.TrimPrefix(f.JSONPath, ".")
			out.Fields[path] = v.gvk.Version + ":" + path
			r.kind.Fields[v.gvk.Version+":"+path] = r.fieldValue(v, f.JSONPath)
		}
	}
}

func (r *resource) fieldValue(v *version, path string) func(api.Object) string {
	return func(obj api.Object) string {
		p := jsonpath.New("selectableField").AllowMissingKeys(true)
		if err := p.Parse("{" + path + "}"); err != nil {
			return ""
		}
		value, err := one(p, r.in(v, obj).Object)
		if err != nil || value == nil {
			return ""
		}
		return fmt.Sprint(value)
	}
}

var errSeveral = errors.New("the path leads to several values")

func one(p *jsonpath.JSONPath, content map[string]any) (any, error) {
	found, err := p.FindResults(content)
	if err != nil || len(found) == 0 || len(found[0]) == 0 {
		return nil, err
	}
	if len(found) > 1 || len(found[0]) > 1 {
		return nil, errSeveral
	}
	return found[0][0].Interface(), nil
}
