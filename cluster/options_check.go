package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// check refuses options that exclude each other or that nothing would come of.
func (c *config) check() error {
	if err := c.checkMembers(); err != nil {
		return err
	}
	if err := c.checkNodes(); err != nil {
		return err
	}
	if err := c.checkRanges(c.nodes); err != nil {
		return err
	}
	if err := c.checkManifests(); err != nil {
		return err
	}
	if err := c.checkImages(); err != nil {
		return err
	}
	if err := c.checkPrograms(); err != nil {
		return err
	}
	if err := c.checkFaults(); err != nil {
		return err
	}
	if err := c.checkNodeOptions(); err != nil {
		return err
	}
	if err := c.checkDisk(); err != nil {
		return err
	}
	if err := c.checkClock(); err != nil {
		return err
	}
	if err := c.checkSnapshot(); err != nil {
		return err
	}
	if c.inProcess {
		return c.checkInProcess()
	}
	return c.checkContainers()
}

// checkMembers holds what was said of components against those that the cluster has.
func (c *config) checkMembers() error {
	for _, component := range Components() {
		if c.runs(component) {
			continue
		}
		if _, ok := c.images[component]; ok && !c.inProcess {
			return fmt.Errorf("image of %s: %s", component, c.whyMissing(component))
		}
		if len(c.args[component]) > 0 {
			return fmt.Errorf("arguments of %s: %s", component, c.whyMissing(component))
		}
		if len(c.files[component]) > 0 {
			return fmt.Errorf("files of %s: %s", component, c.whyMissing(component))
		}
	}
	switch {
	case c.without[Etcd] && c.etcds > 1:
		return fmt.Errorf("%d etcd members: %s", c.etcds, c.whyMissing(Etcd))
	case c.without[Scheduler] && c.schedulers > 1:
		return fmt.Errorf("%d schedulers: %s", c.schedulers, c.whyMissing(Scheduler))
	case c.without[ControllerManager] && c.managers > 1:
		return fmt.Errorf("%d controller managers: %s", c.managers, c.whyMissing(ControllerManager))
	case c.metrics && !c.runs(MetricsServer):
		return fmt.Errorf("%s: %s", MetricsServer, c.whyMissing(MetricsServer))
	case c.csi && !c.runs(CSIDriver):
		return fmt.Errorf("%s: %s", CSIDriver, c.whyMissing(CSIDriver))
	case c.devices && !c.runs(DeviceDriver):
		return fmt.Errorf("%s: %s", DeviceDriver, c.whyMissing(DeviceDriver))
	case c.registry && !c.runs(Registry):
		return fmt.Errorf("%s: %s", Registry, c.whyMissing(Registry))
	case len(c.mirrors)+len(c.insecure) > 0 && !c.hasPodNetwork():
		return fmt.Errorf("registries of nodes: %s", c.whyMissing(KubeProxy))
	case c.without[Node] && c.nodes > 1:
		return fmt.Errorf("%d nodes: %s", c.nodes, c.whyMissing(Node))
	}
	return nil
}

// runs tells whether the cluster has a component.
func (c *config) runs(component Component) bool {
	switch component {
	case KubeProxy, NetworkPolicy:
		return c.hasPodNetwork() && !c.without[component]
	case VolumeProvisioner:
		return c.hasVolumeProvisioner()
	case DNS:
		return c.hasDNS()
	case CSIDriver:
		return c.hasCSIDriver()
	case DeviceDriver:
		return c.hasDeviceDriver()
	default:
		return len(c.names(component)) > 0
	}
}

// whyMissing says why the cluster has no member of a component.
func (c *config) whyMissing(component Component) string {
	switch {
	case c.without[component]:
		return "it is left out"
	case component == MetricsServer && !c.metrics:
		return "it is added by WithMetricsServer (`quintet up --with metrics-server`)"
	case component == CSIDriver && !c.csi:
		return "it is added by WithCSIDriver (`quintet up --with csi-driver`)"
	case component == DeviceDriver && !c.devices:
		return "it is added by WithDeviceDriver (`quintet up --with device-driver`)"
	case component == Registry && !c.registry:
		return "it is added by WithRegistry (`quintet up --with registry`)"
	case component == APIBalancer:
		return "a single API server has none"
	case component == Etcd:
		return fmt.Sprintf("the store is %s", c.store)
	case c.inProcess && component != Node && component != VolumeProvisioner && component != MetricsServer:
		return "a cluster in process has none, as its pods only pretend"
	case component == Routes && c.programs[APIServer] != nil:
		return "the API server is a program of this process, which no pod network leads to"
	case c.hollow() && len(c.names(Node)) > 0:
		return "the nodes are hollow: their kubelets are a program of this process"
	default:
		return "the cluster has no node"
	}
}

func (c *config) checkContainers() error {
	switch {
	case c.storeSet:
		return fmt.Errorf("store %s: only a cluster in process has a choice; one of containers keeps its objects in etcd",
			c.store)
	case c.without[Etcd] && c.apiservers > 1:
		return fmt.Errorf("%d API servers without %s: each would keep objects of its own", c.apiservers, Etcd)
	case len(c.publish) > 0 && !c.hasPodNetwork():
		return fmt.Errorf("published ports: %s", c.whyMissing(KubeProxy))
	}
	if err := c.checkNodePorts(); err != nil {
		return err
	}
	for _, component := range []Component{NetworkPolicy, VolumeProvisioner} {
		if _, ok := c.images[component]; ok {
			return fmt.Errorf("image of %s: it is a process of the nodes, and what others have in its place takes other "+
				"arguments; leave it out (Without, --without %s), load the image of another one (WithLoadedImages, quintet "+
				"load) and deploy that by its manifests (WithManifests, --manifest)", component, component)
		}
	}
	return nil
}

// checkNodePorts refuses published ports that no Service can have.
func (c *config) checkNodePorts() error {
	const flag = "--service-node-port-range="
	text := "30000-32767" // https://kubernetes.io/docs/concepts/services-networking/service/#type-nodeport
	for _, arg := range c.args[APIServer] {
		if given, ok := strings.CutPrefix(arg, flag); ok {
			text = given
		}
	}
	ports, err := utilnet.ParsePortRange(text)
	if err != nil {
		return nil // which the API server says
	}
	for _, host := range slices.Sorted(maps.Keys(c.publish)) {
		if node := c.publish[host]; !ports.Contains(node) {
			return fmt.Errorf("published port %d:%d: node ports are %s (%s); NodeOptions.Ports publishes any port of a node",
				host, node, ports, strings.TrimSuffix(flag, "="))
		}
	}
	return nil
}

func (c *config) checkInProcess() error {
	for _, component := range Components() {
		if _, ok := c.images[component]; ok {
			return fmt.Errorf("image of %s: a cluster in process runs no images", component)
		}
	}
	switch {
	case c.retain:
		return errors.New("retain on failure: a cluster in process ends with its start")
	case c.detached:
		return errors.New("detached: a cluster in process ends with its process")
	case c.etcds > 1:
		return fmt.Errorf("%d etcd members: a cluster in process has one", c.etcds)
	case c.without[Etcd] && !c.inMemory():
		return fmt.Errorf("store %s: %s is left out", c.store, Etcd)
	case len(c.publish) > 0:
		return errors.New("published ports: the nodes of a cluster in process are hollow")
	case c.family != IPv4:
		return fmt.Errorf("IP family %s: a cluster in process has IPv4 only", c.family)
	}
	return nil
}
