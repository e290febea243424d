package handlers

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"quintet.dev/quintet/components/apiserver/cache"
)

// predicate is what the selectors of a list or watch choose, and the name in the path, if there is one.
func (c *call) predicate(o *metav1.ListOptions) (p cache.Predicate, err error) {
	p.In = c.Version
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
	if c.Name == "" {
		return p, nil
	}
	if p.Field == nil {
		p.Field = fields.OneTermEqualSelector("metadata.name", c.Name)
	} else if name, ok := p.Field.RequiresExactMatch("metadata.name"); !ok || name != c.Name {
		return p, apierrors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
	}
	return p, nil
}

// selectable translates a label of a field selector to that of the hub.
func (ep *endpoint) selectable(label, value string) (string, string, error) {
	known := ep.Kind.Fields[label] != nil
	own := label == "metadata.name" || label == "metadata.namespace" && (ep.Kind.Namespaced || len(ep.Kind.Fields) == 0)
	if ep.Version.Fields != nil {
		if to, ok := ep.Version.Fields[label]; ok {
			return to, value, nil
		}
	} else if own || known {
		return label, value, nil
	}
	switch format := ep.Kind.Unselectable; {
	case format != "":
		return "", "", fmt.Errorf(format, label, ep.Version.GroupVersion)
	case len(ep.Kind.Fields) > 0 || ep.Version.Fields != nil:
		return "", "", fmt.Errorf("field label not supported: %s", label)
	}
	return "", "", fmt.Errorf("%q is not a known field selector: only %q, %q", label, "metadata.name",
		"metadata.namespace")
}
