package controllers

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"

	"quintet.dev/quintet/internal/release"
)

// rangeAllocator is the only way of giving nodes their ranges of addresses that needs no cloud.
const rangeAllocator = "RangeAllocator"

// CloudConfig is what concerns cloud providers, FlexVolumes and other releases: parts that managers once had, or that
// are programs of their own today. What upstream's manager only passes on to them has no effect in either.
type CloudConfig struct {
	Provider                      string // "" or "external"
	ConfigFile                    string // of the provider; it must be readable
	VolumePlugin                  string // must be empty: no provider is built in
	ClusterName                   string
	AllowUntagged                 bool
	RouteReconciliation, NodeSync time.Duration
	ConfigureRoutes               bool
	ConcurrentServices            int
	CIDRAllocatorType             string // RangeAllocator

	FlexVolumePluginDir       string // must hold no drivers
	EnableHostPathProvisioner bool   // must be false
	Skew                      release.Skew
}

func defaultCloud() CloudConfig {
	return CloudConfig{ClusterName: "kubernetes", RouteReconciliation: 10 * time.Second, ConfigureRoutes: true,
		ConcurrentServices: 1, CIDRAllocatorType: rangeAllocator,
		FlexVolumePluginDir: "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"}
}

// AddFlags adds upstream's flags of them.
func (c *CloudConfig) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Provider, "cloud-provider", c.Provider,
		"who keeps what nodes and Services need of a cloud: \"external\", another program, or \"\", none")
	fs.StringVar(&c.ConfigFile, "cloud-config", c.ConfigFile, "configuration of the cloud provider")
	fs.StringVar(&c.VolumePlugin, "external-cloud-volume-plugin", c.VolumePlugin,
		"only \"\": no cloud's volumes are built in")
	fs.StringVar(&c.ClusterName, "cluster-name", c.ClusterName, "the cluster's name, of use to cloud providers only")
	fs.BoolVar(&c.AllowUntagged, "allow-untagged-cloud", c.AllowUntagged, "of use to cloud providers only")
	fs.DurationVar(&c.RouteReconciliation, "route-reconciliation-period", c.RouteReconciliation,
		"of use to cloud providers only")
	fs.BoolVar(&c.ConfigureRoutes, "configure-cloud-routes", c.ConfigureRoutes, "of use to cloud providers only")
	fs.DurationVar(&c.NodeSync, "node-sync-period", c.NodeSync, "has no effect, as in upstream's manager")
	for flag, instead := range map[string]string{
		"allow-untagged-cloud": "it will be removed", "node-sync-period": "use --node-monitor-period",
	} {
		if err := fs.MarkDeprecated(flag, instead); err != nil {
			panic(err) // the flag was added above
		}
	}
	fs.IntVar(&c.ConcurrentServices, "concurrent-service-syncs", c.ConcurrentServices,
		"of use to cloud providers only")
	fs.StringVar(&c.CIDRAllocatorType, "cidr-allocator-type", c.CIDRAllocatorType,
		"how nodes get their ranges of pod addresses: only "+rangeAllocator)
	fs.StringVar(&c.FlexVolumePluginDir, "flex-volume-plugin-dir", c.FlexVolumePluginDir,
		"directory of FlexVolume drivers, which are not supported: it must be empty or missing")
	fs.BoolVar(&c.EnableHostPathProvisioner, "enable-hostpath-provisioner", c.EnableHostPathProvisioner,
		"only false: see the program volume-provisioner")
	c.Skew.AddFlags(fs)
}

func (c *CloudConfig) validate() error {
	var errs []error
	refuse := func(when bool, format string, args ...any) {
		if when {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(c.Provider != "" && c.Provider != "external",
		"--cloud-provider %q: no provider is built in, use external or nothing", c.Provider)
	if c.ConfigFile != "" {
		if _, err := read("cloud-config", c.ConfigFile); err != nil {
			errs = append(errs, err)
		}
	}
	refuse(c.VolumePlugin != "", "--external-cloud-volume-plugin %q is not supported", c.VolumePlugin)
	refuse(c.CIDRAllocatorType != "" && c.CIDRAllocatorType != rangeAllocator,
		"--cidr-allocator-type: built-in cloud providers are disabled. The ipam %s is not available", c.CIDRAllocatorType)
	refuse(c.EnableHostPathProvisioner, "--enable-hostpath-provisioner is not supported: run volume-provisioner")
	if drivers, err := os.ReadDir(c.FlexVolumePluginDir); err == nil {
		refuse(len(drivers) > 0, "--flex-volume-plugin-dir %s: FlexVolume drivers are not supported, and %s is one",
			c.FlexVolumePluginDir, nameOf(drivers))
	}
	return errors.Join(append(errs, c.Skew.Validate())...)
}

func nameOf(entries []os.DirEntry) string {
	if len(entries) == 0 {
		return ""
	}
	return entries[0].Name()
}
