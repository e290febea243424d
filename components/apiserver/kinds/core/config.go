package core

import (
	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

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
