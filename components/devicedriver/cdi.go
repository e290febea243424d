package devicedriver

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	cdi "tags.cncf.io/container-device-interface/specs-go"

	"quintet.dev/quintet/internal/durable"
)

// specVersion is the oldest version of CDI that has what is used: engines refuse those that they don't know.
const specVersion = "0.6.0"

// edits are what a CDI device changes of a container.
type edits = cdi.ContainerEdits

// spec is a specification of CDI devices of one kind (https://github.com/cncf-tags/container-device-interface).
type spec struct{ cdi.Spec }

func newSpec(kind string) *spec { return &spec{cdi.Spec{Version: specVersion, Kind: kind}} }

func (s *spec) add(name string, e edits) {
	s.Devices = append(s.Devices, cdi.Device{Name: name, ContainerEdits: e})
}

// write makes the file of a specification, or replaces it.
func (s *spec) write(dir, name string) error {
	content, err := json.MarshalIndent(s.Spec, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return durable.ReplaceFile(filepath.Join(dir, name), content, 0o644)
}

// remove removes a file if it is there.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// qualified is the name by which an engine knows a CDI device.
func qualified(kind, name string) string { return kind + "=" + name }

// fileOf is the name of the file of a kind's specification.
func fileOf(kind string) string { return strings.ReplaceAll(kind, "/", "-") + ".json" }

// variable is a name as a part of that of an environment variable.
func variable(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		default:
			return '_'
		}
	}, name)
}
