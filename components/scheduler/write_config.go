package scheduler

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// write writes the configuration to WriteConfigTo, in the format of its file.
func (c *Config) write() error {
	data, err := yaml.Marshal(c.configuration())
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.WriteConfigTo, data, 0o600); err != nil {
		return fmt.Errorf("--write-config-to: %w", err)
	}
	return nil
}
