package core

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

func configMaps() *api.Kind {
	return api.Define(api.Row[*corev1.ConfigMap]{
		Name: "ConfigMap", Resource: "configmaps", ShortNames: []string{"cm"},
		Hub: corev1.SchemeGroupVersion,
		Default: func(m *corev1.ConfigMap) {
			if m.Data == nil {
				m.Data = map[string]string{} // which an immutable one is compared to
			}
		},
		Strategy: api.Strategy[*corev1.ConfigMap]{
			Validate:            api.OfObject(ValidateConfigMap),
			ValidateAmong:       api.ChangeFirst(ValidateConfigMapChange, api.IgnoreOld(ValidateConfigMap)),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
		},
		Columns: ConfigMapColumns(),
		Row:     ConfigMapRow,
	})
}

func secrets() *api.Kind {
	return api.Define(api.Row[*corev1.Secret]{
		Name: "Secret", Resource: "secrets",
		Hub:     corev1.SchemeGroupVersion,
		Default: DefaultSecret,
		Strategy: api.Strategy[*corev1.Secret]{
			// stringData is write-only.
			PrepareCreate: func(_ context.Context, s *corev1.Secret) { FoldStringData(s) },
			PrepareUpdate: func(_ context.Context, new, old *corev1.Secret) {
				FoldStringData(new)
				if new.Type == "" {
					new.Type = old.Type
				}
			},
			Validate:            api.OfObject(ValidateSecret),
			ValidateAmong:       api.ChangeFirst(ValidateSecretChange, api.IgnoreOld(ValidateSecret)),
			Warnings:            api.OfChange(SecretWarnings),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
		},
		Columns: SecretColumns(),
		Row:     SecretRow,
		Fields: map[string]func(*corev1.Secret) string{
			"type": func(s *corev1.Secret) string { return string(s.Type) },
		},
	})
}

func serviceAccounts() *api.Kind {
	return api.Define(api.Row[*corev1.ServiceAccount]{
		Name: "ServiceAccount", Resource: "serviceaccounts", ShortNames: []string{"sa"},
		Hub: corev1.SchemeGroupVersion,
		Strategy: api.Strategy[*corev1.ServiceAccount]{
			Meta:          api.MetaAll,
			PrepareCreate: func(_ context.Context, s *corev1.ServiceAccount) { TrimSecretReferences(s) },
			PrepareUpdate: func(_ context.Context, new,
				_ *corev1.ServiceAccount) {
				TrimSecretReferences(new)
			},
			ValidateName:        validation.ValidateServiceAccountName,
			Warnings:            api.OfChange(ServiceAccountWarnings),
			UnconditionalUpdate: true,
			ReturnDeleted:       true,
		},
		Subresources: []api.Subresource{{
			Name: "token", Verbs: []string{"create"},
			Body: authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"),
		}},
		Columns: ServiceAccountColumns(),
		Row:     ServiceAccountRow,
	})
}

// DefaultSecret makes a secret without a type opaque, and moves stringData to where it is kept.
func DefaultSecret(s *corev1.Secret) {
	FoldStringData(s)
	if s.Type == "" {
		s.Type = corev1.SecretTypeOpaque
	}
}

// FoldStringData moves stringData into data.
func FoldStringData(s *corev1.Secret) {
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = make(map[string][]byte, len(s.StringData))
	}
	for k, v := range s.StringData {
		s.Data[k] = []byte(v)
	}
	s.StringData = nil
}

// TrimSecretReferences keeps of the references to secrets only what means something: the name.
func TrimSecretReferences(sa *corev1.ServiceAccount) {
	for i := range sa.Secrets {
		sa.Secrets[i] = corev1.ObjectReference{Name: sa.Secrets[i].Name}
	}
}

// ConfigMapColumns are the columns of config maps.
func ConfigMapColumns() show.Columns {
	return show.Name().String("Data", corev1.ConfigMap{}.SwaggerDoc()["data"]).Age()
}

// ConfigMapRow are the cells of a config map.
func ConfigMapRow(c *corev1.ConfigMap) []any {
	return []any{c.Name, int64(len(c.Data) + len(c.BinaryData)), show.Age(c.CreationTimestamp)}
}

// SecretColumns are the columns of secrets.
func SecretColumns() show.Columns {
	doc := corev1.Secret{}.SwaggerDoc()
	return show.Name().String("Type", doc["type"]).String("Data", doc["data"]).Age()
}

// SecretRow are the cells of a secret; never a value.
func SecretRow(s *corev1.Secret) []any {
	return []any{s.Name, string(s.Type), int64(len(s.Data)), show.Age(s.CreationTimestamp)}
}

// ServiceAccountColumns are the columns of service accounts.
func ServiceAccountColumns() show.Columns { return show.Name().Age() }

// ServiceAccountRow are the cells of a service account.
func ServiceAccountRow(s *corev1.ServiceAccount) []any {
	return []any{s.Name, show.Age(s.CreationTimestamp)}
}
