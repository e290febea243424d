package controllers

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"quintet.dev/quintet/internal/leader"
	"quintet.dev/quintet/internal/strictyaml"
)

// managerName is what this manager is called in the configuration of a migration.
const managerName = "kube-controller-manager"

// LeaderMigration lets another manager take over controllers without two of them running at once: those that are moved
// work under a lease of their own.
// See https://kubernetes.io/docs/tasks/administer-cluster/controller-manager-leader-migration/
type LeaderMigration struct {
	Enabled bool
	// ConfigFile is a LeaderMigrationConfiguration; without one, upstream's default moves cloud providers' controllers.
	ConfigFile string
}

// AddFlags adds upstream's flags.
func (c *LeaderMigration) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.Enabled, "enable-leader-migration", c.Enabled,
		"let controllers that move to another manager work under a lease of their own")
	fs.StringVar(&c.ConfigFile, "leader-migration-config", c.ConfigFile,
		"LeaderMigrationConfiguration (controllermanager.config.k8s.io/v1) that tells which controllers move")
}

// migrationFile is upstream's LeaderMigrationConfiguration.
type migrationFile struct {
	APIVersion        string `json:"apiVersion"`
	Kind              string `json:"kind"`
	LeaderName        string `json:"leaderName"`
	ResourceLock      string `json:"resourceLock"`
	ControllerLeaders []struct {
		Name      string `json:"name"`
		Component string `json:"component"`
	} `json:"controllerLeaders"`
}

// migration is which controllers run under which lease.
type migration struct {
	lease string
	moved map[string]bool // by all names of a controller: whether this manager still runs it
}

// load returns nil if no controllers are moved.
func (c *LeaderMigration) load() (*migration, error) {
	if !c.Enabled {
		return nil, nil
	}
	m := &migration{lease: "cloud-provider-extraction-migration", moved: map[string]bool{
		"route-controller": true, "service-controller": true, "cloud-node-lifecycle-controller": true}}
	if c.ConfigFile == "" {
		return m, nil
	}
	data, err := os.ReadFile(c.ConfigFile)
	if err != nil {
		return nil, fmt.Errorf("--leader-migration-config: %w", err)
	}
	var file migrationFile
	if _, err := strictyaml.Decode(c.ConfigFile, data, &file); err != nil {
		return nil, fmt.Errorf("--leader-migration-config: %w", err)
	}
	if err := file.check(); err != nil {
		return nil, fmt.Errorf("--leader-migration-config: %s: %w", c.ConfigFile, err)
	}
	m.lease, m.moved = file.LeaderName, map[string]bool{}
	for _, leader := range file.ControllerLeaders {
		m.moved[leader.Name] = leader.Component == managerName || leader.Component == "*"
	}
	return m, nil
}

func (f *migrationFile) check() error {
	var errs []error
	const group = "controllermanager.config.k8s.io/"
	if v := f.APIVersion; v != group+"v1" && v != group+"v1beta1" && v != group+"v1alpha1" {
		errs = append(errs, fmt.Errorf("apiVersion: %q, want %sv1", v, group))
	}
	if f.Kind != "LeaderMigrationConfiguration" {
		errs = append(errs, fmt.Errorf("kind: %q, want LeaderMigrationConfiguration", f.Kind))
	}
	if f.LeaderName == "" {
		errs = append(errs, errors.New("leaderName: Required value"))
	}
	if f.ResourceLock != "" && f.ResourceLock != "leases" {
		errs = append(errs, fmt.Errorf("resourceLock: %q is not supported, use leases", f.ResourceLock))
	}
	for i, leader := range f.ControllerLeaders {
		if leader.Name == "" {
			errs = append(errs, fmt.Errorf("controllerLeaders[%d].name: Required value", i))
		}
		if leader.Component == "" {
			errs = append(errs, fmt.Errorf("controllerLeaders[%d].component: Required value", i))
		}
	}
	return errors.Join(errs...)
}

func (c *LeaderMigration) validate(election *leader.Config) error {
	if c.Enabled && !election.Elect {
		return errors.New("--enable-leader-migration needs --leader-elect")
	}
	_, err := c.load()
	return err
}

// split returns the controllers that run under the manager's own lease, and those that run under that of the migration;
// those of other managers are in neither.
func (m *migration) split(all []entry) (own, moved []entry) {
	if m == nil {
		return all, nil
	}
	for _, e := range all {
		here, isMoved := m.moved[e.name]
		switch {
		case !isMoved:
			own = append(own, e)
		case here:
			moved = append(moved, e)
		}
	}
	return own, moved
}
