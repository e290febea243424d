package handlers

import (
	"bytes"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/registry"
)

// applyObject is server-side apply: what the patch names becomes the manager's own
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/).
func (p *patcher) applyObject() error {
	wanted, malformed := p.readApply() // which is told of only where there is something to be applied to
	if malformed == nil {
		malformed = p.checkContent(wanted.Object)
	}
	ch := registry.Change{
		Next: func(current *cache.Entry) (api.Object, error) {
			if malformed != nil {
				return nil, malformed
			}
			return p.apply(current.Object, wanted)
		},
		Options: updateOf(p.options), DryRun: p.options.DryRun, Owns: true,
	}
	if p.Sub == nil || p.Strategy.CreateOnUpdate || p.Strategy.CreateOnApply {
		ch.Create = createOf(p.options.DryRun, p.options.FieldManager, p.options.FieldValidation)
		ch.MayCreate = p.mayCreate
		ch.First = func() (api.Object, error) {
			if malformed != nil {
				return nil, malformed
			}
			if uid := wanted.GetUID(); uid != "" {
				return nil, apierrors.NewConflict(p.Resource, p.Name, fmt.Errorf(
					"uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
			}
			return p.apply(p.Nothing(), wanted)
		}
	}
	e, created, err := p.change(ch)
	if err != nil {
		return err
	}
	return p.out.stored(codeOf(created), e)
}

// readApply reads the patch, which is YAML or CBOR and a whole object of the request's kind.
func (p *patcher) readApply() (*unstructured.Unstructured, error) {
	wanted := &unstructured.Unstructured{Object: map[string]any{}}
	if p.cbor { // where the same key twice is an error in any case
		p.clean = true
		if err := direct.Unmarshal(p.body, &wanted.Object); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
		}
		return wanted, nil
	}
	if plainJSON(p.body) {
		if again, err := kjson.UnmarshalStrict(p.body, &wanted.Object, kjson.DisallowDuplicateFields); err == nil &&
			len(again) == 0 {
			p.clean = true
			return wanted, nil
		}
		wanted.Object = map[string]any{}
	}
	exact := func(d *json.Decoder) *json.Decoder { d.UseNumber(); return d }
	err := yaml.Unmarshal(p.body, &wanted.Object, exact)
	if err == nil {
		// integers stay such: custom resources keep what is decoded here
		err = utiljson.ConvertMapNumbers(wanted.Object, 0)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	return wanted, nil
}

// plainJSON tells whether a patch is JSON of which YAML makes nothing else: one object, of printable ASCII, without
// escaped characters, numbers other than integers, and keys that merge. Clients that are programs send such patches.
func plainJSON(body []byte) bool {
	if len(body) == 0 || body[0] != '{' || bytes.Contains(body, []byte(`"<<"`)) {
		return false
	}
	quoted, digits := false, 0
	for _, c := range body {
		switch {
		case c == '\\', c < ' ' && c != '\n', c > '~':
			return false
		case c == '"':
			quoted = !quoted
		case quoted:
		case c >= '0' && c <= '9':
			digits++
			if digits > 18 {
				return false // more than 64 bits, perhaps
			}
			continue
		case digits > 0 && (c == '.' || c == 'e' || c == 'E'):
			return false
		}
		digits = 0
	}
	return true
}

// strictApply treats duplicate keys in the patch as the client asked for.
func (p *patcher) strictApply() error {
	if p.clean || p.options.FieldValidation == metav1.FieldValidationIgnore {
		return nil
	}
	err := yaml.UnmarshalStrict(p.body, &map[string]any{})
	switch {
	case err == nil:
	case p.options.FieldValidation == metav1.FieldValidationStrict:
		return apierrors.NewBadRequest(fmt.Sprintf("error strict decoding YAML: %v", err))
	default:
		warn(p.ctx, strictComplaints(err.Error())...)
	}
	return nil
}

// apply merges the patch into live, a hub object or nothing, which isn't changed.
func (p *patcher) apply(live api.Object, wanted *unstructured.Unstructured) (api.Object, error) {
	force := p.options.Force != nil && *p.options.Force
	obj, err := p.Apply(live, wanted, p.manager, force)
	if err != nil {
		return nil, err
	}
	if err := p.Check(obj); err != nil {
		return nil, fmt.Errorf("failed to convert to unversioned (%s/%s; %s): %w",
			wanted.GetNamespace(), wanted.GetName(), p.GVK, err)
	}
	return obj, p.strictApply()
}
