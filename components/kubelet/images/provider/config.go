// Package provider asks programs of the node for the credentials of images
// (https://kubernetes.io/docs/tasks/administer-cluster/kubelet-credential-provider/).
package provider

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubeletconfig "k8s.io/kubelet/config/v1"
	api "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	"sigs.k8s.io/yaml"
)

// ReadConfig reads a CredentialProviderConfig, or all of them in a directory in the order of their names.
func ReadConfig(path string) (*kubeletconfig.CredentialProviderConfig, error) {
	files := []string{path}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("unable to access path %q: %w", path, err)
	}
	if info.IsDir() {
		if files, err = configFiles(path); err != nil {
			return nil, err
		}
	}
	all := &kubeletconfig.CredentialProviderConfig{}
	for _, file := range files {
		config, err := readFile(file)
		if err != nil {
			return nil, err
		}
		all.Providers = append(all.Providers, config.Providers...)
	}
	if errs := validate(all); len(errs) > 0 {
		return nil, fmt.Errorf("failed to validate credential provider config: %w", errs.ToAggregate())
	}
	return all, nil
}

func configFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(entry.Name())) {
			files = append(files, filepath.Join(dir, entry.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no configuration files found in directory %q", dir)
	}
	return files, nil
}

func readFile(path string) (*kubeletconfig.CredentialProviderConfig, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("unable to read external registry credential provider configuration from %q: %w", path, err)
	}
	config := &kubeletconfig.CredentialProviderConfig{}
	if err := yaml.UnmarshalStrict(data, config); err != nil {
		return nil, fmt.Errorf("error decoding config %s: %w", path, err)
	}
	if config.Kind != "CredentialProviderConfig" || config.APIVersion != kubeletconfig.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("failed to decode %q (apiVersion %s, kind %s) as CredentialProviderConfig of %s", path,
			config.APIVersion, config.Kind, kubeletconfig.SchemeGroupVersion)
	}
	return config, nil
}

func validate(config *kubeletconfig.CredentialProviderConfig) field.ErrorList {
	path := field.NewPath("providers")
	if len(config.Providers) == 0 {
		return field.ErrorList{field.Required(path, "at least 1 item in plugins is required")}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i := range config.Providers {
		p, at := &config.Providers[i], path.Index(i)
		if seen.Has(p.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
		}
		seen.Insert(p.Name)
		errs = append(errs, validateProvider(p, at)...)
		if p.TokenAttributes != nil {
			errs = append(errs, validateToken(p.TokenAttributes, at.Child("tokenAttributes"))...)
		}
	}
	return errs
}

func validateProvider(p *kubeletconfig.CredentialProvider, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch name := at.Child("name"); {
	case strings.ContainsAny(p.Name, "/"):
		errs = append(errs, field.Invalid(name, p.Name, "provider name cannot contain path separator"))
	case p.Name == "." || p.Name == "..":
		errs = append(errs, field.Invalid(name, p.Name, "provider name cannot be '.' or '..'"))
	case strings.Contains(p.Name, " "):
		errs = append(errs, field.Invalid(name, p.Name, "provider name cannot contain spaces"))
	case p.Name == "":
		errs = append(errs, field.Required(name, "provider name is required"))
	}
	if version := api.SchemeGroupVersion.String(); p.APIVersion == "" {
		errs = append(errs, field.Required(at.Child("apiVersion"), ""))
	} else if p.APIVersion != version {
		errs = append(errs, field.NotSupported(at.Child("apiVersion"), p.APIVersion, []string{version}))
	}
	if len(p.MatchImages) == 0 {
		errs = append(errs, field.Required(at.Child("matchImages"), "at least 1 item in matchImages is required"))
	}
	switch duration := at.Child("defaultCacheDuration"); {
	case p.DefaultCacheDuration == nil:
		errs = append(errs, field.Required(duration, ""))
	case p.DefaultCacheDuration.Duration < 0:
		errs = append(errs, field.Invalid(duration, p.DefaultCacheDuration.Duration.String(),
			"must be greater than or equal to 0"))
	}
	return errs
}

func validateToken(t *kubeletconfig.ServiceAccountTokenAttributes, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.ServiceAccountTokenAudience == "" {
		errs = append(errs, field.Required(at.Child("serviceAccountTokenAudience"), ""))
	}
	types := []kubeletconfig.ServiceAccountTokenCacheType{
		kubeletconfig.ServiceAccountServiceAccountTokenCacheType, kubeletconfig.TokenServiceAccountTokenCacheType,
	}
	if t.CacheType == "" {
		errs = append(errs, field.Required(at.Child("cacheType"), fmt.Sprintf("cacheType is required, supported values: %v",
			types)))
	} else if !slices.Contains(types, t.CacheType) {
		errs = append(errs, field.NotSupported(at.Child("cacheType"), t.CacheType, types))
	}
	required := at.Child("requiredServiceAccountAnnotationKeys")
	if t.RequireServiceAccount == nil {
		errs = append(errs, field.Required(at.Child("requireServiceAccount"), ""))
	} else if !*t.RequireServiceAccount && len(t.RequiredServiceAccountAnnotationKeys) > 0 {
		errs = append(errs, field.Forbidden(required,
			"requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set"))
	}
	if twice := sets.New(t.RequiredServiceAccountAnnotationKeys...).Intersection(
		sets.New(t.OptionalServiceAccountAnnotationKeys...)); twice.Len() > 0 {
		errs = append(errs, field.Invalid(at, sets.List(twice),
			"annotation keys cannot be both required and optional"))
	}
	for name, keys := range map[string][]string{
		"requiredServiceAccountAnnotationKeys": t.RequiredServiceAccountAnnotationKeys,
		"optionalServiceAccountAnnotationKeys": t.OptionalServiceAccountAnnotationKeys,
	} {
		seen := sets.New[string]()
		for i, key := range keys {
			if seen.Has(key) {
				errs = append(errs, field.Duplicate(at.Child(name).Index(i), key))
			}
			seen.Insert(key)
		}
	}
	return errs
}

// checkPrograms tells which program is missing in dir.
func checkPrograms(config *kubeletconfig.CredentialProviderConfig, dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("plugin binary directory %s did not exist", dir)
	} else if err != nil {
		return fmt.Errorf("error inspecting binary directory %s: %w", dir, err)
	}
	for i := range config.Providers {
		program := filepath.Join(dir, config.Providers[i].Name)
		if _, err := exec.LookPath(program); errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("plugin binary executable %s did not exist", program)
		} else if err != nil {
			return fmt.Errorf("error inspecting binary executable %s: %w", program, err)
		}
	}
	return nil
}
