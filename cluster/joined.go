package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/cluster/internal/backend"
)

// Origin is where a node of a cluster comes from.
type Origin string

// The origins of nodes.
const (
	OriginCluster   Origin = "cluster"   // the cluster's own, made by Start or AddNode
	OriginJoined    Origin = "joined"    // joined by a token, in a container of the cluster's engine
	OriginElsewhere Origin = "elsewhere" // has no container here
)

// NodeInfo is a node of a cluster.
type NodeInfo struct {
	Name   string `json:"name"`
	Origin Origin `json:"origin"`
	// Registered tells that there is a Node object, and Ready that it is ready.
	Registered bool     `json:"registered"`
	Ready      bool     `json:"ready"`
	Addresses  []string `json:"addresses,omitempty"`
	// Container is Docker's state of it, e.g. "Up 3 minutes"; empty without.
	Container string `json:"container,omitempty"`
}

// Nodes are all nodes of a cluster: those that have a container on the cluster's engine or run in this process, and
// those that have only a Node object.
func (c *Cluster) Nodes(ctx context.Context) ([]NodeInfo, error) {
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return nil, err
	}
	objects, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	byName, err := c.nodeContainers(ctx)
	if err != nil {
		return nil, err
	}
	for i := range objects.Items {
		object := &objects.Items[i]
		node := byName[object.Name]
		if node == nil {
			node = &NodeInfo{Name: object.Name, Origin: OriginElsewhere}
			byName[node.Name] = node
		}
		node.Registered, node.Ready = true, readyNode(object)
		for _, address := range object.Status.Addresses {
			node.Addresses = append(node.Addresses, string(address.Type)+"="+address.Address)
		}
	}
	nodes := []NodeInfo{}
	for _, node := range byName {
		nodes = append(nodes, *node)
	}
	slices.SortFunc(nodes, func(a, b NodeInfo) int { return strings.Compare(a.Name, b.Name) })
	return nodes, nil
}

// nodeContainers are the nodes that are here, by name, without what the API has of them.
func (c *Cluster) nodeContainers(ctx context.Context) (map[string]*NodeInfo, error) {
	byName := map[string]*NodeInfo{}
	for _, m := range c.Component(Node).Members {
		byName[m.name] = &NodeInfo{Name: m.name, Origin: OriginCluster}
	}
	if _, ok := c.backend.(backend.Joinable); !ok {
		return byName, nil
	}
	infos, err := List(ctx, c.Name())
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		if info.Component != Node {
			continue
		}
		node := &NodeInfo{Name: info.Member, Origin: OriginCluster, Container: info.Status}
		if info.Joined {
			node.Origin = OriginJoined
		}
		byName[node.Name] = node
	}
	return byName, nil
}

// JoinedNode finds the node of that name that joined by a token, in a container of the cluster's engine. It is a Member
// from then on.
func (c *Cluster) JoinedNode(ctx context.Context, name string) (*Member, error) {
	if err := c.findJoined(ctx); err != nil {
		return nil, err
	}
	m := c.Member(name)
	return m, m.missing
}

// findJoined makes members of the nodes that joined since the cluster was started or opened.
func (c *Cluster) findJoined(ctx context.Context) error {
	joinable, ok := c.backend.(backend.Joinable)
	if !ok {
		return nil
	}
	joined, err := joinable.Joined(ctx)
	if err != nil {
		return err
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	members := c.Members()
	for _, instance := range joined {
		if !slices.ContainsFunc(members, func(m *Member) bool { return m.name == instance.Name() }) {
			members = append(members, &Member{name: instance.Name(), component: Node, instance: instance})
		}
	}
	c.setMembers(members)
	return nil
}
