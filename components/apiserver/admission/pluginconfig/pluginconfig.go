// Package pluginconfig reads the configurations of admission plug-ins. Upstream reads these without asking for more
// than it knows: what a file says besides is left out, so that one serves several releases.
package pluginconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8syaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Kind is that of all configurations.
const Kind = "Configuration"

// Decode reads a Configuration of one of the versions of a group, JSON or YAML, into a struct. It refuses what is of
// another kind.
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
	text, err := yaml.YAMLToJSON(file)
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(text, into)
}

// DecodeUnversioned reads a configuration as there were before they had versions. There may be none.
func DecodeUnversioned(file []byte, into any) error {
	err := k8syaml.NewYAMLOrJSONDecoder(bytes.NewReader(file), 4096).Decode(into)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
