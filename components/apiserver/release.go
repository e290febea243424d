package apiserver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes/scheme"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/internal/release"
)

// addReleaseFlags adds those that say what of the release is served. It is 1.36 as it is by default: saying so is fine, asking
// for another is an error that names what isn't there, but for the few features that are switches.
func (c *Config) addReleaseFlags(fs *pflag.FlagSet) {
	fs.Var(cliflag.NewMapStringBool(&c.FeatureGates), "feature-gates", "Features, name=true|false. Those that can be set to what they are not by default: "+switches()+".")
	fs.Var((*compatibility)(&c.MinCompatibility), "min-compatibility-version", "Oldest release that this server's data must be good for: from three before its own on; by default the one before.")
	apis := cliflag.ConfigurationMap{}
	c.RuntimeConfig = apis
	fs.Var(&apis, "runtime-config", "APIs, group/version=true|false or api/{ga,beta,alpha}=true|false; what isn't GA is not served, but for storagemigration.k8s.io/v1beta1 with the gate StorageVersionMigrator.")
}

// compatibility is a flag for a release, "1.34" or "kube=1.34".
type compatibility string

func (c *compatibility) String() string { return string(*c) }
func (c *compatibility) Type() string   { return "strings" }
func (c *compatibility) Set(text string) error {
	component, version, ok := strings.Cut(text, "=")
	if !ok {
		component, version = "kube", text
	}
	if component != "kube" {
		return fmt.Errorf("component not registered: %s", component)
	}
	*c = compatibility(version)
	return nil
}

// oldest is how many releases before its own a server may be asked to stay compatible with.
const oldest = 3

// checkCompatibility fills in the release before this one, or judges the one that was asked for.
func (c *Config) checkCompatibility() error {
	own, err := version.Parse(release.Get().GitVersion)
	if err != nil {
		return err
	}
	if c.MinCompatibility == "" {
		c.MinCompatibility = fmt.Sprintf("%d.%d", own.Major(), own.Minor()-1)
	}
	asked, err := version.ParseGeneric(c.MinCompatibility)
	switch {
	case err != nil:
		return fmt.Errorf("--min-compatibility-version: could not parse %q as version", c.MinCompatibility)
	case strings.Count(c.MinCompatibility, ".") > 1:
		return fmt.Errorf("--min-compatibility-version: patch version not allowed, got: kube=%s", c.MinCompatibility)
	case asked.Major() != own.Major() || asked.Minor() > own.Minor() || asked.Minor()+oldest < own.Minor():
		return fmt.Errorf("--min-compatibility-version: minCompatibilityVersion version %s is not between [%d.%d, %d.%d]",
			c.MinCompatibility, own.Major(), own.Minor()-oldest, own.Major(), own.Minor())
	}
	return nil
}

// switches are the gates that can be set, for people.
func switches() string {
	var names []string
	for _, name := range gates.Switches() {
		names = append(names, string(name))
	}
	return strings.Join(names, ", ")
}

// asked returns a kind of a version that isn't GA if it is to be served: it takes the gate, and --runtime-config for the
// version or the resource.
func (s *Server) asked(kind *kinds.Kind, gate featuregate.Feature) []*kinds.Kind {
	setting, ok := s.config.RuntimeConfig[kind.Hub.String()+"/"+kind.Resource]
	if !ok {
		setting = s.config.RuntimeConfig[kind.Hub.String()]
	}
	if wanted, err := strconv.ParseBool(setting); err != nil || !wanted || !s.gates.On(gate) {
		return nil // what is wrong with a setting checkRelease tells
	}
	return []*kinds.Kind{kind}
}

func (s *Server) setGates() (err error) {
	s.gates, err = gates.New(s.config.FeatureGates)
	return err
}

// checkRelease judges the APIs that were asked for by what is served.
func (s *Server) checkRelease() error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(s.config.RuntimeConfig)) {
		if err := s.checkAPI(key, s.config.RuntimeConfig[key]); err != nil {
			errs = append(errs, fmt.Errorf("--runtime-config: %w", err))
		}
	}
	return errors.Join(errs...)
}

// stages are the sets of APIs that have a name, and whether they are served. All is neither.
var stages = map[string]bool{"api/legacy": true, "api/ga": true, "api/beta": false, "api/alpha": false}

func (s *Server) checkAPI(key, value string) error {
	wanted, err := strconv.ParseBool(value)
	if err != nil {
		return fmt.Errorf("invalid value of %s: %s, err: %w", key, value, err)
	}
	served, ok := stages[key]
	if !ok && key != "api/all" {
		if served, err = s.serves(key); err != nil {
			return err
		}
	}
	switch {
	case key == "api/all" || wanted && !served:
		return fmt.Errorf("%s=%v is not supported: what is not GA is not served", key, wanted)
	case served && !wanted:
		return fmt.Errorf("%s=%v is not supported: what is GA is always served", key, wanted)
	}
	return nil
}

// serves reports whether a [group/]version or group/version/resource is in the table.
func (s *Server) serves(key string) (bool, error) {
	parts := strings.Split(key, "/")
	resource := ""
	if len(parts) == 3 {
		resource, parts = parts[2], parts[:2]
	}
	version, err := schema.ParseGroupVersion(strings.Join(parts, "/"))
	if err != nil || len(parts) == 1 && key != "v1" {
		return false, fmt.Errorf("runtime-config invalid key %s", key)
	}
	group := false
	for _, row := range s.table {
		for _, v := range row.Kind.Versions {
			group = group || v.Group == version.Group
			if v.GroupVersion == version && (resource == "" || row.Kind.Resource == resource) {
				return true, nil
			}
		}
	}
	switch {
	case !group && !scheme.Scheme.IsGroupRegistered(version.Group):
		return false, fmt.Errorf("unknown api groups %s", version)
	case resource == "" && !scheme.Scheme.IsVersionRegistered(version):
		return false, fmt.Errorf("group version %s that has not been registered", version)
	}
	return false, nil
}
