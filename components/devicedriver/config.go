// Package devicedriver is a driver of devices for tests: it offers a node's devices both as an extended resource, by
// the device plug-in API (https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/),
// and to ResourceClaims, by dynamic resource allocation
// (https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/).
//
// One process runs per node. Its devices are /dev/null under other names, with variables and files that tell which a
// container got. An annotation of the Node makes devices unhealthy. Each call is logged. All state is on the disk,
// written before it is acknowledged; a driver that was killed continues where it was.
package devicedriver

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/internal/kubeconfig"
	"quintet.dev/quintet/internal/resources"
)

const (
	// Name is that of the DRA driver if nothing else is said.
	Name = "device.quintet.dev"
	// ResourceName is the extended resource of the device plug-in if nothing else is said.
	ResourceName = "quintet.dev/device"
	// UnhealthyAnnotation of a Node lists those of its devices that are unhealthy: names with commas between them, each
	// with "=" and a reason after it, if there is one.
	UnhealthyAnnotation = Name + "/unhealthy"

	// mostDevices is how many a ResourceSlice may have.
	mostDevices = 128
)

// Config of the driver on one node. NewConfig has the defaults.
type Config struct {
	// NodeName is the name of the Node object.
	NodeName string
	// DriverName is the DRA driver, ResourceName the extended resource of the device plug-in.
	DriverName, ResourceName string
	// Devices is how many devices the plug-in offers, device-0 and on; ClaimDevices how many the ResourceSlice has,
	// accelerator-0 and on. 0 leaves that side out.
	Devices, ClaimDevices int
	// NUMANodes is how many NUMA nodes the devices are spread over; 0 tells none.
	NUMANodes int
	// PreStart has the kubelet call PreStartContainer.
	PreStart bool

	// KubeletDir is the root directory of the kubelet, at the same path as the kubelet sees it.
	KubeletDir string
	// CDIDir is where the engine looks for specifications of CDI devices.
	CDIDir string
	// Root is the directory of state and of what containers see; an absolute path that stays, and is the same to the
	// engine.
	Root string
	// CallLog is the file to which each call is appended, a JSON object per line; "" is calls.jsonl in Root.
	CallLog string
	// HostDevice is what every device is in truth.
	HostDevice string
	// Kubeconfig tells how to reach the API server; "" is the configuration of a pod.
	Kubeconfig string

	// Client, if set, is used instead of Kubeconfig.
	Client kubernetes.Interface
	// Clock is what time it is.
	Clock clock.WithTicker
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{
		DriverName: Name, ResourceName: ResourceName, Devices: 4, ClaimDevices: 4, NUMANodes: 1,
		KubeletDir: "/var/lib/kubelet", CDIDir: "/var/run/cdi", Root: "/var/lib/device-driver", HostDevice: "/dev/null",
		Clock: clock.RealClock{},
	}
}

// AddFlags binds the flags of the program.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.NodeName, "node-name", c.NodeName, "Name of the Node object of this machine.")
	fs.StringVar(&c.DriverName, "driver-name", c.DriverName, "Name of the DRA driver, which its DeviceClass selects.")
	fs.StringVar(&c.ResourceName, "resource-name", c.ResourceName, "Extended resource of the device plug-in.")
	fs.IntVar(&c.Devices, "devices", c.Devices,
		"How many devices the device plug-in offers: device-0 and on; 0 for no device plug-in.")
	fs.IntVar(&c.ClaimDevices, "claim-devices", c.ClaimDevices,
		"How many devices there are for ResourceClaims: accelerator-0 and on; 0 for no DRA driver.")
	fs.IntVar(&c.NUMANodes, "numa-nodes", c.NUMANodes,
		"Over how many NUMA nodes the devices are spread; 0 for devices without topology.")
	fs.BoolVar(&c.PreStart, "pre-start", c.PreStart, "Have the kubelet call PreStartContainer before each container.")
	fs.StringVar(&c.KubeletDir, "kubelet-dir", c.KubeletDir, "Root directory of the kubelet, as the kubelet sees it.")
	fs.StringVar(&c.CDIDir, "cdi-dir", c.CDIDir, "Directory in which the engine looks for CDI specifications.")
	fs.StringVar(&c.Root, "root-dir", c.Root, "Directory of state and of the files of devices, as the engine sees it.")
	fs.StringVar(&c.CallLog, "call-log", c.CallLog,
		"File to which each call is appended as a JSON object; calls.jsonl in --root-dir by default.")
	fs.StringVar(&c.HostDevice, "host-device", c.HostDevice, "Device of the machine that every device is in truth.")
	fs.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig, "Kubeconfig file; the configuration of a pod by default.")
}

// check names what can't be honoured.
func (c *Config) check() error {
	var errs []error
	if c.NodeName == "" {
		errs = append(errs, errors.New("--node-name is required: the name of the Node object"))
	}
	if len(validation.IsDNS1123Subdomain(c.DriverName)) > 0 || len(c.DriverName) > 63 {
		errs = append(errs, fmt.Errorf("--driver-name %q: use at most 63 small letters, digits, dashes and dots",
			c.DriverName))
	}
	if !resources.Extended(v1.ResourceName(c.ResourceName)) {
		errs = append(errs, fmt.Errorf("--resource-name %q: use the name of an extended resource, such as %s",
			c.ResourceName, ResourceName))
	}
	for _, count := range []struct {
		flag        string
		value, most int
	}{{"--devices", c.Devices, 10000}, {"--claim-devices", c.ClaimDevices, mostDevices},
		{"--numa-nodes", c.NUMANodes, 1024}} {
		if count.value < 0 || count.value > count.most {
			errs = append(errs, fmt.Errorf("%s %d: use a number from 0 to %d", count.flag, count.value, count.most))
		}
	}
	paths := [][2]string{{"--kubelet-dir", c.KubeletDir}, {"--cdi-dir", c.CDIDir}, {"--root-dir", c.Root},
		{"--host-device", c.HostDevice}}
	if i := slices.IndexFunc(paths, func(p [2]string) bool { return !filepath.IsAbs(p[1]) }); i >= 0 {
		errs = append(errs, fmt.Errorf("%s %q: use an absolute path", paths[i][0], paths[i][1]))
	}
	return errors.Join(errs...)
}

// client is how the API server is reached.
func (c *Config) client() (kubernetes.Interface, error) {
	if c.Client != nil {
		return c.Client, nil
	}
	var config *rest.Config
	var err error
	if c.Kubeconfig == "" {
		config, err = rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("the driver needs an API server: give --kubeconfig, or run in a pod")
		}
	} else {
		config, err = kubeconfig.Load(c.Kubeconfig, -1)
	}
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100
	return kubernetes.NewForConfig(kubeconfig.AddUserAgent(config, "device-driver", c.DriverName))
}
