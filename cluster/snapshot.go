package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// Snapshot is a cluster at one moment: its objects, the authorities of its certificates and tokens, and the options
// that it was started with. It does not change, and is safe for concurrent use. What ran in pods is not part of it:
// nodes start the containers of the pods that they find, as machines do that were off.
type Snapshot struct {
	config *config
	ids    *identities
	memory *memory.Snapshot // of API servers that keep objects in this process
	etcd   []byte           // of others, as `etcdctl snapshot save` writes it
}

// Snapshot takes a snapshot of the cluster. In a process with store Memory it takes no time, and shares memory with the
// cluster until that is written to. Otherwise it is one of the first etcd member that answers.
func (c *Cluster) Snapshot(ctx context.Context) (*Snapshot, error) {
	s, err := c.snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("snapshot of cluster %s: %w", c.Name(), err)
	}
	return s, nil
}

func (c *Cluster) snapshot(ctx context.Context) (*Snapshot, error) {
	ids, err := c.identities(ctx)
	if err != nil {
		return nil, err
	}
	config, err := c.nodeConfig(ctx)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{config: config.forked(), ids: ids}
	if c.hasEtcd() {
		s.etcd, err = c.etcdSnapshot(ctx)
		return s, err
	}
	if c.store == nil {
		return nil, errors.New("it has no etcd")
	}
	s.memory = c.store.Snapshot()
	return s, nil
}

// Start starts another cluster that goes on from the snapshot, as Start does with the options of the cluster that it is
// of, and then opts. It has a name and addresses of its own, the objects of the snapshot, and its users: tokens and
// client certificates are good for both. Ports on this machine are not published again, and manifests not applied.
// Nodes that it does not have are removed. A clock that tests move is shared, unless opts have another.
func (s *Snapshot) Start(ctx context.Context, opts ...Option) (*Cluster, error) {
	config := s.config.forked()
	config.name, config.from = randomName(), s
	return launch(ctx, config, opts)
}

// Fork starts another cluster that goes on from this one as it is now: Snapshot and Snapshot.Start in one. A test suite
// can so prepare one cluster, and give each test one of its own.
func (c *Cluster) Fork(ctx context.Context, opts ...Option) (*Cluster, error) {
	s, err := c.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return s.Start(ctx, opts...)
}

// forked is what a cluster is started with that goes on from one with this config.
func (c *config) forked() *config {
	copied := *c
	copied.images, copied.built = maps.Clone(c.images), map[Component]string{}
	copied.without, copied.files = maps.Clone(c.without), maps.Clone(c.files)
	copied.args = map[Component][]string{}
	for component, args := range c.args {
		copied.args[component] = slices.Clone(args)
	}
	copied.publish, copied.nodeOptions = map[int]int{}, slices.Clone(c.nodeOptions)
	for i := range copied.nodeOptions {
		copied.nodeOptions[i].Ports = nil
	}
	copied.loaded, copied.archives = slices.Clone(c.loaded), slices.Clone(c.archives)
	copied.mirrors, copied.insecure = slices.Clone(c.mirrors), slices.Clone(c.insecure)
	copied.programs = maps.Clone(c.programs)
	copied.manifests, copied.mergeInto, copied.from = nil, "", nil
	return &copied
}

// checkSnapshot refuses a snapshot that the cluster's store can't take.
func (c *config) checkSnapshot() error {
	inMemory := c.inProcess && c.store == Memory
	switch {
	case c.from == nil:
		return nil
	case c.from.memory != nil && !inMemory:
		return fmt.Errorf("the snapshot is of a cluster in process with store %s: start it with these", Memory)
	case c.from.etcd != nil && !c.inProcess && c.images[Etcd] != "":
		return errors.New("etcd's image is not Quintet's, whose program starts from a snapshot")
	case c.from.etcd != nil && (inMemory || c.without[Etcd]):
		return errors.New("the snapshot is of etcd: start it in containers, or with store " + string(EmbeddedEtcd))
	}
	return nil
}

// identities are those of the snapshot that the cluster goes on from, with authorities that it has not.
func (c *config) identities() (*identities, error) {
	made, err := newIdentities(c.validity())
	if err != nil || c.from == nil {
		return made, err
	}
	ids := *c.from.ids
	if ids.etcd == nil {
		ids.etcd = made.etcd
	}
	if ids.frontProxy == nil {
		ids.frontProxy = made.frontProxy
	}
	return &ids, nil
}

// Restore puts the cluster back to what it was at a snapshot, of itself or of one that it went on from: all components
// stop, and start again with the objects of then. Its addresses, users and options stay, and resource versions grow:
// clients that watch are told that they must list again.
func (c *Cluster) Restore(ctx context.Context, s *Snapshot) error {
	if err := c.restore(ctx, s); err != nil {
		return fmt.Errorf("restore cluster %s: %w", c.Name(), err)
	}
	return nil
}

func (c *Cluster) restore(ctx context.Context, s *Snapshot) error {
	ids, err := c.identities(ctx)
	if err != nil {
		return err
	}
	switch {
	case string(ids.cluster.Cert) != string(s.ids.cluster.Cert):
		return errors.New("the snapshot is of a cluster with other authorities; start one from it with Snapshot.Start")
	case c.hasEtcd() && s.etcd == nil || !c.hasEtcd() && s.memory == nil:
		return errors.New("the snapshot is of another kind of store")
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	if err := c.halt(ctx); err != nil {
		return err
	}
	if err := c.replaceObjects(ctx, s); err != nil {
		return err
	}
	for _, component := range Components() { // one after the other: what finds the API is spared a back-off
		group := c.Component(component)
		if len(group.Members) == 0 {
			continue
		}
		if err := group.Start(ctx); err != nil {
			return err
		}
	}
	if err := c.WaitAPI(ctx); err != nil {
		return err
	}
	if err := c.removeOthers(ctx); err != nil {
		return err
	}
	return c.WaitNodes(ctx)
}

// replaceObjects must be called while nothing runs.
func (c *Cluster) replaceObjects(ctx context.Context, s *Snapshot) error {
	if c.hasEtcd() {
		return c.restoreEtcd(ctx, s.etcd)
	}
	return c.store.Restore(s.memory)
}

func (c *Cluster) hasEtcd() bool { return len(c.Component(Etcd).Members) > 0 }

// halt stops all members, and each after those that need it to end well.
func (c *Cluster) halt(ctx context.Context) error {
	order := map[Component]int{APIServer: 1, APIBalancer: 1, Etcd: 2}
	for turn := range 3 {
		var group errgroup.Group
		for _, m := range c.Members() {
			if order[m.component] == turn {
				group.Go(func() error { return m.Stop(ctx) })
			}
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// adopt has a cluster that goes on from a snapshot know only nodes that it has.
func (s *start) adopt(ctx context.Context) error {
	return s.cluster.removeOthers(ctx)
}

// removeOthers removes Node objects that are of no member.
func (c *Cluster) removeOthers(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		name := nodes.Items[i].Name
		if c.Member(name).missing == nil {
			continue
		}
		err := client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// moved tells why a Node object is still that of the cluster a snapshot was taken of: its addresses are not those of
// the member.
func (c *Cluster) moved(node *corev1.Node) error {
	if c.config.from == nil || c.addressing == nil {
		return nil
	}
	if c.config.inProcess {
		if port := node.Status.DaemonEndpoints.KubeletEndpoint.Port; int(port) != c.addressing.Port(node.Name, kubeletPort) {
			return fmt.Errorf("node %s still tells port %d, of before", node.Name, port)
		}
		return nil
	}
	want := c.addressing.IPs(node.Name)
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP && slices.Contains(want, a.Address) {
			return nil
		}
	}
	return fmt.Errorf("node %s does not tell its addresses %v yet", node.Name, want)
}
