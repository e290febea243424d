package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"

	"quintet.dev/quintet/components/apiserver/registry"
)

// strategic merges by the rules that the fields of the Go type carry.
func (p *patcher) strategic(current, into runtime.Object) error {
	var patch map[string]any
	var problems []error
	var err error
	if p.options.FieldValidation == metav1.FieldValidationIgnore {
		err = kjson.UnmarshalCaseSensitivePreserveInts(p.body, &patch)
	} else {
		problems, err = kjson.UnmarshalStrict(p.body, &patch)
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	parts := parts{touched: current}
	if !p.Verbatim() { // else what maps held meanwhile is encoded again
		parts = partsOf(current, patch)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(parts.touched)
	if err != nil {
		return err
	}
	parts.forget(content)
	merged, err := strategicpatch.StrategicMergeMapPatch(content, patch, into)
	switch err {
	case nil:
	case mergepatch.ErrBadJSONDoc, mergepatch.ErrBadPatchFormatForPrimitiveList,
		mergepatch.ErrBadPatchFormatForRetainKeys,
		mergepatch.ErrBadPatchFormatForSetElementOrderList, mergepatch.ErrUnsupportedStrategicMergePatchFormat:
		return apierrors.NewBadRequest(err.Error())
	case mergepatch.ErrNoListOfLists:
		return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "",
			err.Error(), 0, false)
	default:
		return registry.ClientFault(err.Error())
	}
	if err := p.checkContent(merged); err != nil {
		return err
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(merged, into,
		p.options.FieldValidation != metav1.FieldValidationIgnore)
	if s, ok := runtime.AsStrictDecodingError(err); ok {
		problems = append(problems, s.Errors()...)
	} else if err != nil {
		return invalidPatch(fmt.Sprintf("%+v", patch), err.Error())
	}
	parts.restore(into)
	if len(problems) == 0 {
		return nil // printing a patch, for the complaint, takes a tenth of the time
	}
	return p.complain(problems, fmt.Sprintf("%+v", patch))
}

// marshaler is what the JSON of some types is made by.
var marshaler = reflect.TypeFor[json.Marshaler]()

// parts are an object taken apart: what a patch touches, which has to be merged as a map, and the rest, which hasn't.
type parts struct {
	touched runtime.Object
	rest    runtime.Object // nil if all is touched
	kept    [][]int        // the fields of rest that have a value
	names   []string       // of the fields at the top that are all of rest
}

// forget takes out of what is touched, as a map, what isn't but has a name there.
func (p parts) forget(content map[string]any) {
	for _, name := range p.names {
		delete(content, name)
	}
}

// partsOf divides current, which isn't changed, by the names in the patch.
func partsOf(current runtime.Object, patch map[string]any) parts {
	v := reflect.ValueOf(current).Elem()
	if _, free := current.(runtime.Unstructured); free || v.Kind() != reflect.Struct || !plainNames(patch) {
		return parts{touched: current}
	}
	touched, rest := reflect.New(v.Type()), reflect.New(v.Type())
	out := parts{touched: touched.Interface().(runtime.Object), rest: rest.Interface().(runtime.Object)}
	out.divide(v, touched.Elem(), rest.Elem(), patch, nil)
	return out
}

// plainNames tells whether a patch has no directive about the whole that it is for.
func plainNames(patch map[string]any) bool {
	for name := range patch {
		if strings.HasPrefix(name, "$") {
			return false
		}
	}
	return true
}

// divide puts each field of a struct to what is touched or to the rest. Structs in structs, of which a patch says more,
// are divided too: what is merged there depends on nothing beside it.
func (p *parts) divide(v, touched, rest reflect.Value, patch map[string]any, at []int) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		given, named := patch[name]
		below, isMap := given.(map[string]any)
		switch {
		case !named && name != "":
			if x := v.Field(i); !x.IsZero() {
				rest.Field(i).Set(x)
				p.kept = append(p.kept, append(slices.Clone(at), i))
			}
			if len(at) == 0 {
				p.names = append(p.names, name)
			}
		case named && isMap && f.Type.Kind() == reflect.Struct && !reflect.PointerTo(f.Type).Implements(marshaler) &&
			plainNames(below):
			p.divide(v.Field(i), touched.Field(i), rest.Field(i), below, append(slices.Clone(at), i))
		default:
			touched.Field(i).Set(v.Field(i))
		}
	}
}

// restore puts a copy of the rest into the merged object, which is of the same type.
func (p parts) restore(merged runtime.Object) {
	if p.rest == nil {
		return
	}
	from, to := reflect.ValueOf(p.rest.DeepCopyObject()).Elem(), reflect.ValueOf(merged).Elem()
	for _, place := range p.kept {
		to.FieldByIndex(place).Set(from.FieldByIndex(place))
	}
}
