package kubelet

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

// readFiles merges the files of --config-dir, in the order of their names, into that of --config: what is in a map is
// merged, anything else is replaced (https://kubernetes.io/docs/tasks/administer-cluster/kubelet-config-file/).
func (c *Config) readFiles() (*kubeletconfig.KubeletConfiguration, error) {
	merged := map[string]any{}
	if c.ConfigFile != "" {
		if err := mergeFile(merged, "--config", c.ConfigFile); err != nil {
			return nil, err
		}
	}
	files, err := dropIns(c.ConfigDir)
	if err != nil {
		return nil, fmt.Errorf("--config-dir: %w", err)
	}
	for _, path := range files {
		if err := mergeFile(merged, "--config-dir", path); err != nil {
			return nil, err
		}
	}
	data, err := yaml.Marshal(merged)
	if err != nil {
		return nil, err
	}
	var file kubeletconfig.KubeletConfiguration
	return &file, yaml.UnmarshalStrict(data, &file)
}

// dropIns are the files below a directory whose names end in .conf, in order; none for "".
func dropIns(dir string) ([]string, error) {
	if dir == "" {
		return nil, nil
	}
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) == ".conf" {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

// mergeFile checks one file by itself, so that an error names it, and merges it.
func mergeFile(into map[string]any, flag, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	var file kubeletconfig.KubeletConfiguration
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return fmt.Errorf("%s %s: %w", flag, path, err)
	}
	if file.APIVersion != kubeletconfig.SchemeGroupVersion.String() || file.Kind != "KubeletConfiguration" {
		return fmt.Errorf("%s %s: want apiVersion %s and kind KubeletConfiguration, got %q and %q",
			flag, path, kubeletconfig.SchemeGroupVersion, file.APIVersion, file.Kind)
	}
	var fields map[string]any
	if err := yaml.Unmarshal(data, &fields); err != nil {
		return fmt.Errorf("%s %s: %w", flag, path, err)
	}
	merge(into, fields)
	return nil
}

func merge(into, from map[string]any) {
	for key, value := range from {
		before, was := into[key].(map[string]any)
		now, is := value.(map[string]any)
		if was && is {
			merge(before, now)
			continue
		}
		into[key] = value
	}
}
