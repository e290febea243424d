package admission

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
)

// readFile reads an AdmissionConfiguration
// (https://kubernetes.io/docs/reference/config-api/apiserver-config.v1/#apiserver-config-k8s-io-v1-AdmissionConfiguration)
// and returns the configuration of each plug-in that has one, by the plug-in's name.
func readFile(path string) (map[string][]byte, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	decoded, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	config, ok := decoded.(*apiserver.AdmissionConfiguration)
	if !ok {
		return nil, fmt.Errorf("%s: it is a %s, want an AdmissionConfiguration", path, decoded.GetObjectKind().GroupVersionKind().Kind)
	}
	out := map[string][]byte{}
	for i, p := range config.Plugins {
		file, err := pluginFile(p, filepath.Dir(path))
		if err != nil {
			return nil, fmt.Errorf("%s: plugins[%d] (%s): %w", path, i, p.Name, err)
		}
		if _, twice := out[p.Name]; file != nil && !twice { // the first counts, as with upstream
			out[p.Name] = file
		}
	}
	return out, nil
}

// pluginFile is what a plug-in is configured with; nil if there is nothing. Paths are relative to dir.
func pluginFile(p apiserver.AdmissionPluginConfiguration, dir string) ([]byte, error) {
	i := slices.IndexFunc(plugins, func(known plugin) bool { return known.name == p.Name })
	switch {
	case i < 0:
		return nil, errors.New("there is no such plug-in")
	case p.Configuration == nil && p.Path == "":
		return nil, nil
	case !plugins[i].file:
		return nil, errors.New("it takes no configuration here")
	case p.Configuration != nil:
		return p.Configuration.Raw, nil
	case !filepath.IsAbs(p.Path):
		return os.ReadFile(filepath.Join(dir, p.Path))
	}
	return os.ReadFile(p.Path)
}
