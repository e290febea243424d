package core

import (
	"encoding/json"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateConfigMap checks a config map.
func ValidateConfigMap(c *corev1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for key, value := range c.Data {
		errs = append(errs, configKey(key, field.NewPath("data").Key(key))...)
		if _, twice := c.BinaryData[key]; twice {
			errs = append(errs, field.Invalid(field.NewPath("data").Key(key), key,
				"duplicate of key present in binaryData"))
		}
		size += len(value)
	}
	for key, value := range c.BinaryData {
		errs = append(errs, configKey(key, field.NewPath("binaryData").Key(key))...)
		size += len(value)
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "", corev1.MaxSecretSize))
	}
	return errs
}

// ValidateConfigMapChange checks a change alone: an immutable one stays as it is.
func ValidateConfigMapChange(new, old *corev1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	if old.Immutable != nil && *old.Immutable {
		if new.Immutable == nil || !*new.Immutable {
			errs = append(errs, forbidImmutable("immutable"))
		}
		if !reflect.DeepEqual(new.Data, old.Data) { // an empty map is not none
			errs = append(errs, forbidImmutable("data"))
		}
		if !reflect.DeepEqual(new.BinaryData, old.BinaryData) {
			errs = append(errs, forbidImmutable("binaryData"))
		}
	}
	return errs
}

func forbidImmutable(name string) *field.Error {
	return field.Forbidden(field.NewPath(name), "field is immutable when `immutable` is set")
}

func configKey(key string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(path, key, msg))
	}
	return errs
}

// ValidateSecret checks a secret: its size, its keys, and what its type asks for.
func ValidateSecret(s *corev1.Secret) field.ErrorList {
	data := field.NewPath("data")
	var errs field.ErrorList
	size := 0
	for key, value := range s.Data {
		errs = append(errs, configKey(key, data.Key(key))...)
		size += len(value)
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(data, "", corev1.MaxSecretSize))
	}
	return append(errs, secretOfType(s, data)...)
}

func secretOfType(s *corev1.Secret, data *field.Path) field.ErrorList {
	var errs field.ErrorList
	require := func(keys ...string) {
		for _, key := range keys {
			if _, ok := s.Data[key]; !ok {
				errs = append(errs, field.Required(data.Key(key), ""))
			}
		}
	}
	switch s.Type {
	case corev1.SecretTypeServiceAccountToken:
		if s.Annotations[corev1.ServiceAccountNameKey] == "" {
			errs = append(errs, field.Required(
				field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), ""))
		}
	case corev1.SecretTypeDockercfg:
		errs = append(errs, jsonUnder(s, corev1.DockerConfigKey, data)...)
	case corev1.SecretTypeDockerConfigJson:
		errs = append(errs, jsonUnder(s, corev1.DockerConfigJsonKey, data)...)
	case corev1.SecretTypeBasicAuth:
		_, user := s.Data[corev1.BasicAuthUsernameKey]
		_, password := s.Data[corev1.BasicAuthPasswordKey]
		if !user && !password {
			require(corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
		}
	case corev1.SecretTypeSSHAuth:
		if len(s.Data[corev1.SSHAuthPrivateKey]) == 0 {
			errs = append(errs, field.Required(data.Key(corev1.SSHAuthPrivateKey), ""))
		}
	case corev1.SecretTypeTLS:
		require(corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	return errs
}

func jsonUnder(s *corev1.Secret, key string, data *field.Path) field.ErrorList {
	value, ok := s.Data[key]
	if !ok {
		return field.ErrorList{field.Required(data.Key(key), "")}
	}
	// The error must not show the secret.
	if err := json.Unmarshal(value, &map[string]any{}); err != nil {
		return field.ErrorList{field.Invalid(data.Key(key), "<secret contents redacted>", err.Error())}
	}
	return nil
}

// ValidateSecretChange checks a change alone: the type stays, and an immutable one stays as it is.
func ValidateSecretChange(new, old *corev1.Secret) field.ErrorList {
	errs := validation.ValidateImmutableField(new.Type, old.Type, field.NewPath("type"))
	if old.Immutable != nil && *old.Immutable {
		if new.Immutable == nil || !*new.Immutable {
			errs = append(errs, forbidImmutable("immutable"))
		}
		if !reflect.DeepEqual(new.Data, old.Data) {
			errs = append(errs, forbidImmutable("data"))
		}
	}
	return errs
}
