// Package pluginconfig reads the configurations of admission plug-ins.
package pluginconfig

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Kind is that of all configurations.
const Kind = "Configuration"

// Decode reads a Configuration of one of the versions of a group, JSON or YAML, into a struct. It refuses unknown fields, and
// what is of another kind.
func Decode(file []byte, group string, versions []string, into any) error {
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(file, &meta); err != nil {
		return err
	}
	gv, err := schema.ParseGroupVersion(meta.APIVersion)
	if err != nil {
		return err
	}
	if gv.Group != group || !slices.Contains(versions, gv.Version) || meta.Kind != Kind {
		return fmt.Errorf("it is a %s of %s, want a %s of %s/%s", meta.Kind, meta.APIVersion, Kind, group, versions[0])
	}
	return yaml.UnmarshalStrict(file, into)
}
