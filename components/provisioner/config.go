// Package provisioner makes volumes of directories of a node, for claims of classes with the provisioner
// quintet.dev/local (https://kubernetes.io/docs/concepts/storage/dynamic-provisioning/).
//
// One process per node serves the claims whose pod the scheduler has put there (volume.kubernetes.io/selected-node). A
// volume is of type local, in a directory named like it, with node affinity to the node. It is removed when it is
// released and its reclaim policy is Delete; with Retain, directory and volume stay. Capacity is what the claim asks
// for, and isn't enforced: the volumes of a node share its disk.
//
// Names follow from the claim's UID, and a directory is marked until its volume exists, so that a process that ended in
// the middle neither makes a second volume nor leaves a directory behind.
package provisioner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/internal/kubeconfig"
)

// Name is what storage classes call this provisioner.
const Name = "quintet.dev/local"

// Config of the provisioner of a node.
type Config struct {
	Kubeconfig       string
	HostnameOverride string // name of the Node object; "" is the machine's host name
	// VolumeDir is where volumes' directories are made; an absolute path.
	VolumeDir string
	// AllNodes serves claims of every node out of VolumeDir: for clusters whose nodes are all on this machine, such as
	// hollow ones.
	AllNodes bool

	// Injected by tests, instead of a kubeconfig and the system's clock.
	Client kubernetes.Interface
	Clock  clock.WithTicker
}

// NewConfig returns the defaults.
func NewConfig() *Config { return &Config{VolumeDir: "/var/lib/quintet/local-volumes"} }

// AddFlags adds the flags of the program.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig, "How to reach the API server.")
	fs.StringVar(&c.HostnameOverride, "hostname-override", c.HostnameOverride,
		"Name of this node instead of the machine's host name.")
	fs.StringVar(&c.VolumeDir, "volume-dir", c.VolumeDir, "Directory in which those of volumes are made.")
	fs.BoolVar(&c.AllNodes, "all-nodes", c.AllNodes,
		"Serve claims of every node: for clusters whose nodes are all on this machine.")
}

// check names what can't be honoured.
func (c *Config) check() error {
	var errs []error
	if c.Client == nil && c.Kubeconfig == "" {
		errs = append(errs, errors.New("--kubeconfig is required"))
	}
	if !filepath.IsAbs(c.VolumeDir) {
		errs = append(errs, fmt.Errorf("--volume-dir %q: use an absolute path", c.VolumeDir))
	}
	if c.AllNodes && c.HostnameOverride != "" {
		errs = append(errs, errors.New("--hostname-override names one node, and --all-nodes means every one"))
	}
	return errors.Join(errs...)
}

// nodeName is the name of this node; "" is every one.
func (c *Config) nodeName() (string, error) {
	if c.AllNodes {
		return "", nil
	}
	name := c.HostnameOverride
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("host name (or give --hostname-override): %w", err)
		}
	}
	return strings.ToLower(strings.TrimSpace(name)), nil
}

func newClient(file string) (kubernetes.Interface, error) {
	config, err := kubeconfig.Load(file, 50)
	if err != nil {
		return nil, err
	}
	config = kubeconfig.AddUserAgent(config, "volume-provisioner", "volume-provisioner")
	config.Burst = 100
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(config)
}
