package join

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quintet.dev/quintet/internal/join"
	"quintet.dev/quintet/internal/kubeconfig"
)

const (
	retryAfter = 500 * time.Millisecond
	// stateFile keeps what the node was configured with, for restarts.
	stateFile = "joined.json"
)

const (
	clusterInfoPath = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
	nodeConfigPath  = "/api/v1/namespaces/kube-system/secrets/" + join.NodeConfigName
	nodesPath       = "/api/v1/nodes/"
)

// Node is a node that joins. Its methods belong to one goroutine at a time.
type Node struct {
	options   Options
	dir       string // its files, usually /etc/kubernetes
	log       io.Writer
	authority []byte
	config    join.NodeConfig
}

// New makes a node with its files in dir. What it waits for, and why, is written to log.
func New(o Options, dir string, log io.Writer) *Node { return &Node{options: o, dir: dir, log: log} }

// Prepare writes the node's files, and returns the arguments of its kubelet. A node that has its own client certificate
// goes on with what it has, without asking the cluster: its token may have expired.
func (n *Node) Prepare(ctx context.Context) ([]string, error) {
	joined, err := n.joined()
	if err != nil {
		return nil, err
	}
	if !joined {
		if err := n.first(ctx); err != nil {
			return nil, err
		}
	}
	ips, err := addresses(n.options.Server, n.config.IPFamilies)
	if err != nil {
		return nil, err
	}
	return n.options.args(n.config, ips), nil
}

// joined reads what a node has that joined before.
func (n *Node) joined() (bool, error) {
	if _, err := os.Stat(n.path(join.KubeletConf)); errors.Is(err, os.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	content, err := os.ReadFile(n.path(stateFile))
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(content, &n.config); err != nil {
		return false, fmt.Errorf("%s: %w", n.path(stateFile), err)
	}
	n.authority, err = os.ReadFile(n.path(join.AuthorityFile))
	return true, err
}

// first is what a node does that never joined.
func (n *Node) first(ctx context.Context) error {
	n.say("joining the cluster of %s as %s", n.options.Server, n.options.Name)
	if err := n.discover(ctx); err != nil {
		return err
	}
	api, err := newClient(n.options.Server, n.authority, n.options.Token.String())
	if err != nil {
		return err
	}
	if err := n.checkName(ctx, api); err != nil {
		return err
	}
	var secret corev1.Secret
	if err := api.get(ctx, nodeConfigPath, &secret); err != nil {
		return n.explain("read the Secret kube-system/"+join.NodeConfigName, err)
	}
	if n.config, err = join.ReadNodeConfig(&secret); err != nil {
		return err
	}
	return n.writeFiles()
}

// checkName is an error if another node has the name.
func (n *Node) checkName(ctx context.Context, api *client) error {
	var node corev1.Node
	err := api.get(ctx, nodesPath+n.options.Name, &node)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return n.explain("look for a node "+n.options.Name, err)
	}
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	if ready {
		return fmt.Errorf("the cluster has a node %s, which is ready: choose another name (docker run --env "+
			"NODE_NAME=...), or remove that node first (quintet node remove %s)", n.options.Name, n.options.Name)
	}
	return nil
}

// explain says what to do about an answer of the API server.
func (n *Node) explain(what string, err error) error {
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the API server does not take the token %s (any more): it has expired, was deleted, or "+
			"may not be used for authentication; `quintet join-command` makes a new one: %w", what,
			n.options.Token.ID, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: the token %s is not in the group %s, or was not made by `quintet token create`: %w",
			what, n.options.Token.ID, join.NodeGroup, err)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}

// writeFiles writes what the kubelet starts from.
func (n *Node) writeFiles() error {
	state, err := json.Marshal(n.config)
	if err != nil {
		return err
	}
	bootstrap, err := kubeconfig.Encode("bootstrap", "https://"+n.options.Server, n.authority,
		kubeconfig.Identity{User: "bootstrap", Token: n.options.Token.String()})
	if err != nil {
		return err
	}
	files := map[string][]byte{stateFile: state, join.BootstrapConf: bootstrap, join.AuthorityFile: n.authority}
	for name, content := range n.config.Files {
		files[name] = content
	}
	for name, content := range files {
		if err := n.write(name, content); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) write(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(n.path(name)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(n.path(name), content, 0o600)
}

func (n *Node) path(name string) string { return filepath.Join(n.dir, filepath.FromSlash(name)) }

func (n *Node) say(format string, args ...any) {
	fmt.Fprintf(n.log, "node-init: "+format+"\n", args...)
}
