package handlers

import (
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metainternalvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/cache"
)

// readQuery decodes the parameters of a request into one of the option types of meta/v1, with the converter that
// apimachinery has for it.
func readQuery[T any](c *call, convert func(*url.Values, *T) error) (*T, error) {
	out := new(T)
	if c.r.URL.RawQuery == "" {
		return out, nil
	}
	query := c.r.URL.Query()
	if err := convert(&query, out); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return out, nil
}

func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

func (c *call) createOptions() (*metav1.CreateOptions, error) {
	o, err := readQuery(c, func(q *url.Values, o *metav1.CreateOptions) error {
		return metav1.Convert_url_Values_To_v1_CreateOptions(q, o, nil)
	})
	if err != nil {
		return nil, err
	}
	o.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "CreateOptions"}
	return o, invalidOptions("CreateOptions", validation.ValidateCreateOptions(o))
}

func (c *call) updateOptions() (*metav1.UpdateOptions, error) {
	o, err := readQuery(c, func(q *url.Values, o *metav1.UpdateOptions) error {
		return metav1.Convert_url_Values_To_v1_UpdateOptions(q, o, nil)
	})
	if err != nil {
		return nil, err
	}
	o.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "UpdateOptions"}
	return o, invalidOptions("UpdateOptions", validation.ValidateUpdateOptions(o))
}

// isDryRun reads options that were validated: there is but one value.
func isDryRun(dryRun []string) bool { return slices.Contains(dryRun, metav1.DryRunAll) }

// listOptions reads and checks the options of list, watch and deletecollection, and makes a predicate of the selectors.
func (c *call) listOptions() (*metav1.ListOptions, cache.Predicate, error) {
	o, err := readQuery(c, func(q *url.Values, o *metav1.ListOptions) error {
		return metav1.Convert_url_Values_To_v1_ListOptions(q, o, nil)
	})
	if err != nil {
		return nil, cache.Predicate{}, err
	}
	p, err := c.predicate(o)
	if err != nil {
		return nil, p, err
	}
	o.Watch = c.info.Verb == "watch"
	internal := internalversion.ListOptions{
		Watch: o.Watch, AllowWatchBookmarks: o.AllowWatchBookmarks,
		ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch,
		TimeoutSeconds: o.TimeoutSeconds, Limit: o.Limit, Continue: o.Continue, SendInitialEvents: o.SendInitialEvents,
		LabelSelector: p.Label, FieldSelector: p.Field,
	}
	return o, p, invalidOptions("ListOptions", metainternalvalidation.ValidateListOptions(&internal, true))
}

func (c *call) predicate(o *metav1.ListOptions) (p cache.Predicate, err error) {
	if o.LabelSelector != "" {
		if p.Label, err = labels.Parse(o.LabelSelector); err != nil {
			return p, apierrors.NewBadRequest(err.Error())
		}
		if p.Label.Empty() {
			p.Label = nil
		}
	}
	if o.FieldSelector != "" {
		s, err := fields.ParseSelector(o.FieldSelector)
		if err != nil {
			return p, apierrors.NewBadRequest(err.Error())
		}
		if s, err = s.Transform(c.selectable); err != nil {
			return p, apierrors.NewBadRequest(err.Error())
		}
		if !s.Empty() {
			p.Field = s
		}
	}
	if c.name == "" {
		return p, nil
	}
	// One object is asked for by its name in the path (or by the selector that says the same).
	if p.Field != nil {
		if name, ok := p.Field.RequiresExactMatch("metadata.name"); ok && name == c.name {
			return p, nil
		} else if ok {
			return p, apierrors.NewBadRequest("metadata.name in the field selector is not the name in the path")
		}
		p.Field = fields.AndSelectors(p.Field, fields.OneTermEqualSelector("metadata.name", c.name))
		return p, nil
	}
	p.Field = fields.OneTermEqualSelector("metadata.name", c.name)
	return p, nil
}

// selectable translates a label of a field selector to that of the hub.
func (c *call) selectable(label, value string) (string, string, error) {
	if c.version.Fields != nil {
		if to, ok := c.version.Fields[label]; ok {
			return to, value, nil
		}
		return "", "", notSelectable(label, true)
	}
	switch _, known := c.kind.Fields[label]; {
	case label == "metadata.name", label == "metadata.namespace", known:
		return label, value, nil
	}
	return "", "", notSelectable(label, len(c.kind.Fields) > 0)
}

func notSelectable(label string, others bool) error {
	if others {
		return &plainError{"field label not supported: " + label}
	}
	return &plainError{`"` + label + `" is not a known field selector: only "metadata.name", "metadata.namespace"`}
}

type plainError struct{ text string }

func (e *plainError) Error() string { return e.text }
