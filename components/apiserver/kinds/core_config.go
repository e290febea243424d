package kinds

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"quintet.dev/quintet/components/apiserver/kinds/core"
)

func configMaps() *Kind {
	return define(row[*corev1.ConfigMap]{
		Name: "ConfigMap", Resource: "configmaps", ShortNames: []string{"cm"},
		Hub: corev1.SchemeGroupVersion,
		Default: func(m *corev1.ConfigMap) {
			if m.Data == nil {
				m.Data = map[string]string{} // which an immutable one is compared to
			}
		},
		Strategy: strategy[*corev1.ConfigMap]{
			Validate:            core.ValidateConfigMap,
			ValidateAmong:       changeFirst(core.ValidateConfigMapChange, whatever(core.ValidateConfigMap)),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
		},
		Columns: core.ConfigMapColumns(),
		Row:     core.ConfigMapRow,
	})
}

func secrets() *Kind {
	return define(row[*corev1.Secret]{
		Name: "Secret", Resource: "secrets",
		Hub:     corev1.SchemeGroupVersion,
		Default: core.DefaultSecret,
		Strategy: strategy[*corev1.Secret]{
			// stringData is write-only.
			PrepareCreate: func(_ context.Context, s *corev1.Secret) { core.FoldStringData(s) },
			PrepareUpdate: func(_ context.Context, new, old *corev1.Secret) {
				core.FoldStringData(new)
				if new.Type == "" {
					new.Type = old.Type
				}
			},
			Validate:            core.ValidateSecret,
			ValidateAmong:       changeFirst(core.ValidateSecretChange, whatever(core.ValidateSecret)),
			Warnings:            core.SecretWarnings,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
		},
		Columns: core.SecretColumns(),
		Row:     core.SecretRow,
		Fields: map[string]func(*corev1.Secret) string{
			"type": func(s *corev1.Secret) string { return string(s.Type) },
		},
	})
}

func serviceAccounts() *Kind {
	return define(row[*corev1.ServiceAccount]{
		Name: "ServiceAccount", Resource: "serviceaccounts", ShortNames: []string{"sa"},
		Hub: corev1.SchemeGroupVersion,
		Strategy: strategy[*corev1.ServiceAccount]{
			Meta:                MetaAll,
			PrepareCreate:       func(_ context.Context, s *corev1.ServiceAccount) { core.TrimSecretReferences(s) },
			PrepareUpdate:       func(_ context.Context, new, _ *corev1.ServiceAccount) { core.TrimSecretReferences(new) },
			ValidateName:        validation.ValidateServiceAccountName,
			Warnings:            core.ServiceAccountWarnings,
			UnconditionalUpdate: true,
			ReturnDeleted:       true,
		},
		Subresources: []Subresource{{
			Name: "token", Verbs: []string{"create"},
			Body: authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"),
		}},
		Columns: core.ServiceAccountColumns(),
		Row:     core.ServiceAccountRow,
	})
}
