package kinds

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"quintet.dev/quintet/components/apiserver/kinds/core"
)

var serviceParts = parts[*corev1.Service, corev1.ServiceSpec, corev1.ServiceStatus]{
	spec:   func(s *corev1.Service) *corev1.ServiceSpec { return &s.Spec },
	status: func(s *corev1.Service) *corev1.ServiceStatus { return &s.Status },
}

func services(deps Deps) *Kind {
	s := strategy[*corev1.Service]{
		PrepareCreate:       func(_ context.Context, s *corev1.Service) { core.PrepareServiceCreate(s) },
		PrepareUpdate:       func(_ context.Context, new, old *corev1.Service) { core.PrepareServiceUpdate(new, old) },
		Validate:            core.ValidateService,
		ValidateUpdate:      core.ValidateServiceUpdate,
		ValidateName:        validation.NameIsDNSLabel,
		Warnings:            core.ServiceWarnings,
		Canonicalize:        core.CanonicalService,
		CreateOnUpdate:      true,
		UnconditionalUpdate: true,
		ReturnDeleted:       true,
		Reset:               []string{"status"},
	}
	primary := func() corev1.IPFamily { return corev1.IPv4Protocol }
	if deps.StrictServiceNames {
		s.ValidateName = validation.NameIsDNS1035Label
	}
	if deps.Services != nil {
		s.Allocate, primary = deps.Services.Allocate, deps.Services.Primary
	}
	return define(row[*corev1.Service]{
		Name: "Service", Resource: "services", ShortNames: []string{"svc"}, Categories: []string{"all"},
		Prefix:   "services/specs",
		Hub:      corev1.SchemeGroupVersion,
		Default:  core.DefaultService,
		OnRead:   func(s *corev1.Service) { core.CompleteService(s, primary()) },
		Strategy: s,
		Status: &strategy[*corev1.Service]{
			PrepareUpdate:  serviceParts.statusUpdate,
			ValidateUpdate: core.ValidateServiceStatus,
			Warnings:       core.ServiceStatusWarnings,
			Reset:          []string{"spec"},
			CreateOnUpdate: true,
		},
		Subresources: []Subresource{special("proxy", "create", "delete", "get", "patch", "update")},
		Columns:      core.ServiceColumns(),
		Row:          core.ServiceRow,
		Fields: map[string]func(*corev1.Service) string{
			"spec.clusterIP": func(s *corev1.Service) string { return s.Spec.ClusterIP },
			"spec.type":      func(s *corev1.Service) string { return string(s.Spec.Type) },
		},
	})
}

func endpoints() *Kind {
	return define(row[*corev1.Endpoints]{
		Name: "Endpoints", Resource: "endpoints", ShortNames: []string{"ep"},
		Prefix:  "services/endpoints",
		Hub:     corev1.SchemeGroupVersion,
		Default: core.DefaultEndpoints,
		Strategy: strategy[*corev1.Endpoints]{
			Meta:                MetaAll,
			Validate:            core.ValidateEndpoints,
			ValidateUpdate:      core.ValidateEndpointsUpdate,
			Warnings:            core.EndpointsWarnings,
			ValidateName:        validation.NameIsDNSSubdomain,
			CreateOnUpdate:      true,
			UnconditionalUpdate: true,
		},
		Columns: core.EndpointsColumns(),
		Row:     core.EndpointsRow,
	})
}
