package server

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// selectAttributes tells authorizers about the selectors of a request (KEP-4601).
func selectAttributes(out *authorizer.AttributesRecord, info *request.RequestInfo) {
	if info.FieldSelector != "" {
		if s, err := fields.ParseSelector(info.FieldSelector); err != nil {
			out.FieldSelectorParsingErr = err
		} else {
			out.FieldSelectorRequirements = s.Requirements()
		}
	}
	if info.LabelSelector != "" {
		if s, err := labels.Parse(info.LabelSelector); err != nil {
			out.LabelSelectorParsingErr = err
		} else {
			out.LabelSelectorRequirements, _ = s.Requirements()
		}
	}
}
