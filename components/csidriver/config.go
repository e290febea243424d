// Package csidriver is a CSI driver for tests: its volumes are directories and files of the node, in the manner of
// csi-driver-host-path (https://github.com/container-storage-interface/spec/blob/master/spec.md,
// https://kubernetes-csi.github.io/docs/).
//
// One process per node serves identity, controller and node, and takes the part of the sidecars for what is on its
// node: it registers with the kubelet, and provisions, attaches and resizes volumes. All state is on the disk, written
// before it is acknowledged; a driver that was killed continues where it was.
package csidriver

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/internal/kubeconfig"
)

// Name is that of the driver if nothing else is said.
const Name = "csi.quintet.dev"

// Config of the driver on one node. NewConfig has the defaults.
type Config struct {
	DriverName string
	// NodeID is the name of the Node object.
	NodeID string
	// Endpoint is the path of the socket that serves CSI.
	Endpoint string
	// Registration is the directory in which kubelets look for plug-ins; "" does not register. KubeletEndpoint is
	// Endpoint as the kubelet sees it; "" if both see the same path.
	Registration    string
	KubeletEndpoint string
	// Root is the directory of volumes, snapshots and state; an absolute path that stays.
	Root string
	// CallLog is the file to which each call is appended, a JSON object per line, with what was answered and without
	// secrets; "" is calls.jsonl in Root.
	CallLog string
	// Capacity is how much space all volumes of the node may ask for together.
	Capacity resource.Quantity
	// AttachLimit is how many volumes the node takes; 0 is no limit.
	AttachLimit int64

	// Provision, Attach and Resize do what the sidecars external-provisioner, external-attacher and external-resizer do,
	// for volumes of this node.
	Provision, Attach, Resize bool
	// Kubeconfig tells how to reach the API server; "" is the configuration of a pod.
	Kubeconfig string

	// Client, if set, is used instead of Kubeconfig.
	Client kubernetes.Interface
	// Clock is what time it is.
	Clock clock.WithTicker

	mounts mounter // what mounts; tests without rights have their own
}

// NewConfig returns the defaults.
func NewConfig() *Config {
	return &Config{
		DriverName: Name, Endpoint: "/csi/csi.sock", Root: "/var/lib/csi-driver", Capacity: resource.MustParse("100Gi"),
		Clock: clock.RealClock{}, mounts: systemMounts{},
	}
}

// AddFlags binds the flags of the program.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.DriverName, "driver-name", c.DriverName, "Name of the driver, that of its CSIDriver object.")
	fs.StringVar(&c.NodeID, "node-id", c.NodeID, "Name of the Node object of this machine.")
	fs.StringVar(&c.Endpoint, "csi-endpoint", c.Endpoint, "Path of the socket that serves CSI.")
	fs.StringVar(&c.Registration, "registration-dir", c.Registration,
		"Directory in which the kubelet looks for plug-ins; without it, the driver does not register.")
	fs.StringVar(&c.KubeletEndpoint, "kubelet-registration-path", c.KubeletEndpoint,
		"Path of --csi-endpoint as the kubelet sees it, if that is another one.")
	fs.StringVar(&c.Root, "root-dir", c.Root, "Directory of volumes, snapshots and state.")
	fs.StringVar(&c.CallLog, "call-log", c.CallLog,
		"File to which each call is appended as a JSON object; calls.jsonl in --root-dir by default.")
	fs.Var(&quantityValue{&c.Capacity}, "capacity", "Space that all volumes of the node may ask for together.")
	fs.Int64Var(&c.AttachLimit, "attach-limit", c.AttachLimit, "How many volumes the node takes; 0 is no limit.")
	fs.BoolVar(&c.Provision, "provision", c.Provision, "Make and delete volumes for claims, as external-provisioner does.")
	fs.BoolVar(&c.Attach, "attach", c.Attach, "Carry out VolumeAttachments, as external-attacher does.")
	fs.BoolVar(&c.Resize, "resize", c.Resize, "Expand volumes whose claims ask for more, as external-resizer does.")
	fs.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig,
		"Kubeconfig file for --provision, --attach and --resize; the configuration of a pod by default.")
}

// quantityValue is a flag that takes a quantity.
type quantityValue struct{ *resource.Quantity }

// Set implements pflag.Value.
func (v *quantityValue) Set(text string) error {
	q, err := resource.ParseQuantity(text)
	if err == nil {
		*v.Quantity = q
	}
	return err
}

// Type implements pflag.Value.
func (*quantityValue) Type() string { return "quantity" }

// check names what can't be honoured.
func (c *Config) check() error {
	var errs []error
	if problems := validation.IsDNS1123Subdomain(strings.ToLower(c.DriverName)); len(problems) > 0 ||
		len(c.DriverName) > 63 {
		errs = append(errs, fmt.Errorf("--driver-name %q: use at most 63 letters, digits, dashes and dots", c.DriverName))
	}
	if c.NodeID == "" {
		errs = append(errs, errors.New("--node-id is required: the name of the Node object"))
	}
	for flag, path := range map[string]string{"--csi-endpoint": c.Endpoint, "--root-dir": c.Root} {
		if !filepath.IsAbs(path) {
			errs = append(errs, fmt.Errorf("%s %q: use an absolute path", flag, path))
		}
	}
	if c.Capacity.Sign() <= 0 {
		errs = append(errs, fmt.Errorf("--capacity %s: use a quantity greater than 0", c.Capacity.String()))
	}
	if c.AttachLimit < 0 {
		errs = append(errs, fmt.Errorf("--attach-limit %d: use 0 for no limit, or a positive number", c.AttachLimit))
	}
	return errors.Join(errs...)
}

// topologyKey is the label of nodes by which volumes are kept where they are.
func (c *Config) topologyKey() string { return "topology." + c.DriverName + "/node" }

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
			return nil, errors.New("--provision, --attach and --resize need an API server: give --kubeconfig, or run in a pod")
		}
	} else {
		config, err = kubeconfig.Load(c.Kubeconfig, -1)
	}
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100
	return kubernetes.NewForConfig(kubeconfig.AddUserAgent(config, "csi-driver", c.DriverName))
}
