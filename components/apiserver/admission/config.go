package admission

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/components/apiserver/admission/imagepolicy"
	"quintet.dev/quintet/components/apiserver/admission/podnodeselector"
)

// readFile reads an AdmissionConfiguration
// (https://kubernetes.io/docs/reference/config-api/apiserver-config.v1/#apiserver-config-k8s-io-v1-AdmissionConfiguration)
// and returns the configuration of each plug-in that is on and takes one, by the plug-in's name. Of others nothing is
// read: one file serves clusters with different plug-ins, and of different releases.
func readFile(path string, on map[string]bool) (map[string][]byte, error) {
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
	if runtime.IsMissingVersion(err) || runtime.IsMissingKind(err) || runtime.IsNotRegisteredError(err) {
		if old := unversioned(data); len(old) > 0 {
			return old, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	config, ok := decoded.(*apiserver.AdmissionConfiguration)
	if !ok {
		return nil, fmt.Errorf("%s: it is a %s, want an AdmissionConfiguration", path,
			decoded.GetObjectKind().GroupVersionKind().Kind)
	}
	out := map[string][]byte{}
	for i, p := range config.Plugins {
		takes := on[p.Name] && slices.ContainsFunc(plugins,
			func(known plugin) bool { return known.name == p.Name && known.file })
		if _, twice := out[p.Name]; !takes || twice { // the first counts, as with upstream
			continue
		}
		if out[p.Name], err = pluginFile(p, filepath.Dir(path)); err != nil {
			return nil, fmt.Errorf("%s: plugins[%d] (%s): %w", path, i, p.Name, err)
		}
	}
	return out, nil
}

// unversioned reads a file as there were before there was an AdmissionConfiguration: all of it is that of one plug-in,
// or of the two that had one. It returns nothing if the file is something else.
func unversioned(data []byte) map[string][]byte {
	var file map[string]any
	if err := yaml.Unmarshal(data, &file); err != nil {
		return nil
	}
	out := map[string][]byte{}
	for key, name := range map[string]string{"imagePolicy": imagepolicy.Name,
		"podNodeSelectorPluginConfig": podnodeselector.Name} {
		part, ok := file[key]
		if !ok {
			continue
		}
		if text, err := yaml.Marshal(map[string]any{key: part}); err == nil {
			out[name] = text
		}
	}
	return out
}

// pluginFile is what a plug-in is configured with; nil if there is nothing. Paths are relative to dir.
func pluginFile(p apiserver.AdmissionPluginConfiguration, dir string) ([]byte, error) {
	switch {
	case p.Configuration != nil:
		return p.Configuration.Raw, nil
	case p.Path == "":
		return nil, nil
	case !filepath.IsAbs(p.Path):
		return os.ReadFile(filepath.Join(dir, p.Path))
	}
	return os.ReadFile(p.Path)
}
