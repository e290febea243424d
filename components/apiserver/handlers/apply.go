package handlers

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds"
)

// applyObject is server-side apply: what the patch names becomes the manager's own
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/).
func (p *patcher) applyObject() error {
	wanted, err := p.readApply()
	if err != nil {
		return err
	}
	uid := wanted.GetUID()
	ch := change{
		next:    func(current *cache.Entry) (kinds.Object, error) { return p.apply(current.Object, wanted) },
		options: p.options, dryRun: p.options.DryRun, uid: uid,
	}
	if p.sub == nil {
		ch.create = createOf(p.options.DryRun, p.options.FieldManager, p.options.FieldValidation)
		ch.first = func() (kinds.Object, error) {
			if uid != "" {
				return nil, apierrors.NewConflict(p.resource, p.name, fmt.Errorf(
					"uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
			}
			return p.apply(p.kindHub(), wanted)
		}
	}
	e, created, err := p.run(ch)
	if err != nil {
		return err
	}
	return p.stored(codeOf(created), e)
}

func (p *patcher) kindHub() kinds.Object { return p.call.kind.HubVersion().New() }

// readApply reads the patch, which is YAML and a whole object of the request's kind.
func (p *patcher) readApply() (*unstructured.Unstructured, error) {
	wanted := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal(p.body, &wanted.Object); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	if p.options.FieldValidation != metav1.FieldValidationIgnore {
		if err := yaml.UnmarshalStrict(p.body, &map[string]any{}); err != nil {
			if p.options.FieldValidation == metav1.FieldValidationStrict {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("error strict decoding YAML: %v", err))
			}
			p.warnStrict(runtime.NewStrictDecodingError([]error{err}))
		}
	}
	return wanted, nil
}

// apply merges the patch into live, a hub object that isn't changed.
func (p *patcher) apply(live kinds.Object, wanted *unstructured.Unstructured) (kinds.Object, error) {
	fields, err := p.fields()
	if err != nil {
		return nil, err
	}
	force := p.options.Force != nil && *p.options.Force
	out, err := fields.Apply(copyOf(live), wanted.DeepCopy(), p.managerName(p.options.FieldManager), force)
	if err != nil {
		return nil, err
	}
	obj, ok := out.(kinds.Object)
	if !ok {
		return nil, fmt.Errorf("applying made a %T", out)
	}
	return obj, nil
}
