package options

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/version"
	cliflag "k8s.io/component-base/cli/flag"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/internal/release"
)

// addReleaseFlags adds those that say what of the release is served. It is 1.36 as it is by default: saying so is fine,
// asking for another is an error that names what isn't there, but for the few features that are switches.
func (c *Config) addReleaseFlags(fs *pflag.FlagSet) {
	fs.Var(cliflag.NewMapStringBool(&c.FeatureGates), "feature-gates", "Features, name=true|false. "+
		"Those that can be set to what they are not by default: "+switches()+
		", and those that API servers never ask for.")
	fs.Var((*compatibility)(&c.MinCompatibility), "min-compatibility-version",
		"Oldest release that this server's data must be good for: from three before its own on; by default the one "+
			"before.")
	apis := cliflag.ConfigurationMap{}
	c.RuntimeConfig = apis
	fs.Var(&apis, "runtime-config", runtimeConfigUsage)
}

// compatibility is a flag for a release, "1.34" or "kube=1.34".
type compatibility string

func (c *compatibility) String() string { return string(*c) }

func (c *compatibility) Type() string { return "strings" }

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

// checkCompatibility fills in the release before this one, or checks the one that was set.
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
		return fmt.Errorf("--min-compatibility-version: "+
			"minCompatibilityVersion version %s is not between [%d.%d, %d.%d]",
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
