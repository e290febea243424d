package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/cluster/internal/backend"
)

// AddNode adds a node to a running cluster, and returns it when it is ready. Its number is one above the highest. A
// cluster of containers must have been started with a node, as without it has no pod network.
func (c *Cluster) AddNode(ctx context.Context, o NodeOptions) (*Member, error) {
	authority, err := c.signer(ctx)
	if err != nil {
		return nil, fmt.Errorf("add node: %w", err)
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	number, nodes := 1, 1 // with this one
	for _, m := range c.Component(Node).Members {
		number, nodes = max(number, nodeNumber(m.name)+1), nodes+1
	}
	name := fmt.Sprintf("node-%d", number)
	base, err := c.nodeConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("add %s: %w", name, err)
	}
	if !base.runs(ControllerManager) {
		nodes = number // a range belongs to a number for good
	}
	if err := base.checkRanges(nodes); err != nil {
		return nil, fmt.Errorf("add %s: %w", name, err)
	}
	config, err := base.withNode(number, o)
	if err != nil {
		return nil, err
	}
	placement := backend.Placement{Name: name, InProcess: config.beside(Node)}
	if config.hollow() {
		placement.Port = kubeletPort
	}
	addressing, err := c.backend.Add(ctx, placement)
	if err != nil {
		return nil, err
	}
	l := &layout{config: config, addressing: addressing, ids: &identities{cluster: authority}}
	planned, err := l.member(Node, l.node, name)
	if err != nil {
		return nil, err
	}
	added, err := c.startNode(ctx, l, planned)
	c.setMembers(append(c.Members(), added...))
	if err != nil {
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("add %s: %w", name, err), c.removeAll(cleaning, added))
	}
	return added[len(added)-1], nil
}

// startNode starts a node, after the disk that it has of its own, and returns when it is ready. It returns what it
// started also where it fails.
func (c *Cluster) startNode(ctx context.Context, l *layout, node backend.Member) (started []*Member, err error) {
	for _, member := range l.withDisk(node) {
		instance, err := c.backend.Start(ctx, member)
		if err != nil {
			return started, err
		}
		started = append(started, &Member{name: member.Name, component: Component(member.Component), instance: instance})
	}
	return started, c.join(ctx, started[len(started)-1], l.config)
}

// removeAll removes members from the cluster, nodes with their Node objects.
func (c *Cluster) removeAll(ctx context.Context, members []*Member) error {
	var errs []error
	for _, m := range slices.Backward(members) {
		var err error
		if m.component == Node {
			err = c.remove(ctx, m)
		} else {
			err = c.backend.Remove(ctx, m.instance)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		c.setMembers(slices.DeleteFunc(c.Members(), func(other *Member) bool { return other == m }))
	}
	return errors.Join(errs...)
}

// nodeConfig is what nodes are made by: the cluster's own, or what its API servers keep of it.
func (c *Cluster) nodeConfig(ctx context.Context) (*config, error) {
	if c.addressing != nil {
		return c.config, nil
	}
	return configOf(ctx, c.Name(), c.Component(APIServer).Members[0]) // signer has seen to that there is one
}

// withNode is a copy with one more node.
func (c *config) withNode(number int, o NodeOptions) (*config, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("node-%d: %w", number, err)
	}
	if !c.hollow() && !c.hasPodNetwork() {
		return nil, fmt.Errorf("add node-%d: cluster %s was started without nodes, and has no pod network; start it with one",
			number, c.name)
	}
	copied := *c
	copied.nodeOptions = make([]NodeOptions, number)
	copied.nodeOptions[number-1] = o
	copied.nodes, copied.roomSet = max(c.nodes, number), c.room()
	return &copied, copied.checkNodes()
}

// join waits for a node and gives it what those of the start have.
func (c *Cluster) join(ctx context.Context, m *Member, config *config) error {
	machine := []backend.Instance{m.instance}
	for _, component := range []Component{DNS, KubeProxy} {
		if ref := config.images[component]; ref != "" && config.hasPodNetwork() && !config.without[component] {
			if err := c.backend.Load(ctx, ref, machine); err != nil {
				return err
			}
		}
	}
	if config.hasCSIDriver() {
		if err := c.backend.Load(ctx, config.image(CSIDriver), machine); err != nil {
			return err
		}
	}
	if config.hasDeviceDriver() {
		if err := c.backend.Load(ctx, config.image(DeviceDriver), machine); err != nil {
			return err
		}
	}
	if err := c.loadInto(ctx, config, machine); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return err
	}
	err = until(ctx, func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, m.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return config.schedulable(node)
	})
	if err != nil {
		return fmt.Errorf("%w; its last lines:\n%s", err, m.tail(context.WithoutCancel(ctx)))
	}
	return c.labelNode(ctx, m.name, config.ofNode(m.name))
}

// RemoveNode removes a node from a running cluster: its container or kubelet, and its Node object. Nothing is drained;
// pods of the node are those of a machine that is gone, which controllers replace. The first node takes published ports
// with it.
func (c *Cluster) RemoveNode(ctx context.Context, i int) error {
	return c.RemoveNamedNode(ctx, fmt.Sprintf("node-%d", i))
}

// RemoveNamedNode is RemoveNode of any node: one of the cluster's own, or one that joined by a token and whose
// container is on the cluster's engine. Of one whose container was removed before, or is elsewhere, it removes the Node
// object, unless the node is ready: it would come back.
func (c *Cluster) RemoveNamedNode(ctx context.Context, name string) error {
	if err := c.findJoined(ctx); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	m := c.Member(name)
	if m.missing != nil {
		return c.removeObject(ctx, m)
	}
	if m.component != Node {
		return fmt.Errorf("remove %s: it is no node", name)
	}
	members := []*Member{m}
	if kept := c.Member(diskOf(m.name)); kept.missing == nil {
		members = []*Member{kept, m}
	}
	if err := c.removeAll(ctx, members); err != nil {
		return fmt.Errorf("remove %s: %w", m.name, err)
	}
	return nil
}

// removeObject removes the Node object of a machine that is gone.
func (c *Cluster) removeObject(ctx context.Context, m *Member) error {
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, m.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return m.missing
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", m.name, err)
	}
	if readyNode(node) {
		return fmt.Errorf("remove %s: the node is ready, and its container is not of this Docker engine, or has no "+
			"label of the cluster; end it first, and then remove the node again", m.name)
	}
	err = client.CoreV1().Nodes().Delete(ctx, m.name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func readyNode(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
}

// remove ends a node first: a kubelet that runs would register it again.
func (c *Cluster) remove(ctx context.Context, m *Member) error {
	if err := c.backend.Remove(ctx, m.instance); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return err
	}
	err = client.CoreV1().Nodes().Delete(ctx, m.name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
