package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"quintet.dev/quintet/internal/strictyaml"
)

// The version and kind of configuration files.
const (
	ConfigAPIVersion = "quintet.dev/v1"
	ConfigKind       = "Cluster"
)

// ConfigFile is a cluster as a file describes it: docs/config.md lists the fields. It is validated.
type ConfigFile struct {
	spec     clusterSpec
	settings []setting
}

// setting is an option, and the field of the file that asks for it.
type setting struct {
	path   string
	option Option
}

// LoadConfig reads a configuration file. Relative paths in it are relative to its directory. Errors name the file, the
// line and the path of each field that is wrong.
func LoadConfig(file string) (*ConfigFile, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("configuration of the cluster: %w", err)
	}
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	return parseConfig(file, dir, content)
}

// WithConfig does what a configuration file says. Relative paths in it are relative to the working directory. What
// follows among the options comes on top of it.
func WithConfig(content []byte) Option {
	return func(c *config) error {
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		file, err := parseConfig("config", dir, content)
		if err != nil {
			return err
		}
		return file.Option()(c)
	}
}

// Name is the cluster's name; empty if the file gives none.
func (f *ConfigFile) Name() string { return f.spec.Name }

// InProcess tells whether the file asks for a cluster in this process.
func (f *ConfigFile) InProcess() bool { return f.spec.InProcess }

// Kubeconfig is the file to merge a context of the cluster into, and whether that is asked for. "" is the file that
// kubectl would change.
func (f *ConfigFile) Kubeconfig() (file string, merge bool) {
	if f.spec.Kubeconfig == nil {
		return "", false
	}
	return f.spec.Kubeconfig.File, f.spec.Kubeconfig.Merge
}

// Option does what the file says.
func (f *ConfigFile) Option() Option {
	return func(c *config) error { return apply(c, f.settings) }
}

func apply(c *config, settings []setting) error {
	for _, s := range settings {
		if err := s.option(c); err != nil {
			return err
		}
	}
	return nil
}

func parseConfig(file, dir string, content []byte) (*ConfigFile, error) {
	f := &ConfigFile{}
	document, err := strictyaml.Decode(file, content, &f.spec)
	if err != nil {
		return nil, err
	}
	if f.spec.APIVersion != ConfigAPIVersion {
		return nil, document.At("apiVersion", fmt.Errorf("%q: this release reads %s", f.spec.APIVersion, ConfigAPIVersion))
	}
	if f.spec.Kind != ConfigKind {
		return nil, document.At("kind", fmt.Errorf("%q: want %s", f.spec.Kind, ConfigKind))
	}
	var errs []error
	f.settings, errs = f.spec.settings(dir, document)
	c := newConfig("x")
	for _, s := range f.settings {
		if err := s.option(c); err != nil {
			errs = append(errs, document.At(s.path, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, document.At(f.blame(), err)
	}
	return f, nil
}

// blame finds the last field without which the others are a cluster.
func (f *ConfigFile) blame() string {
	for i := len(f.settings) - 1; i >= 0; i-- {
		c := newConfig("x")
		if apply(c, f.settings[:i]) == nil && apply(c, f.settings[i+1:]) == nil && c.check() == nil {
			return f.settings[i].path
		}
	}
	return ""
}
