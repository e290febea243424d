package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/cluster/internal/addons"
	"quintet.dev/quintet/cluster/internal/backend"
	"quintet.dev/quintet/internal/join"
)

// signedWithin is how long the controller manager may take to sign for a new token.
const signedWithin = 15 * time.Second

// JoinOptions say by what, and as what, a node joins. The zero value is a new token, and a node called as its
// container.
type JoinOptions struct {
	// Token is an existing token; if it is empty, a new one is made as NewToken says.
	Token    string
	NewToken TokenOptions
	// NodeName is the name of the Node object, and of the container after the cluster's; empty for names that Docker
	// chooses, with which the same command starts any number of nodes.
	NodeName string
	// Labels that a kubelet may set, and taints, with which the node registers.
	Labels map[string]string
	Taints []corev1.Taint
	// Elsewhere makes the command one for another machine: the node is not on the cluster's network, and reaches the
	// API server at its published port.
	Elsewhere bool
}

// JoinCommand is a command line that starts a node.
type JoinCommand struct {
	// Args are the program, docker, and its arguments.
	Args []string `json:"args"`
	// Token is the one by which the node joins, Server the address of the API, and Hash the pin of its authority.
	Token  string `json:"token"`
	Server string `json:"server"`
	Hash   string `json:"hash"`
}

// String is the command line for a shell.
func (j JoinCommand) String() string {
	quoted := make([]string, len(j.Args))
	for i, arg := range j.Args {
		quoted[i] = quoteShell(arg)
	}
	return strings.Join(quoted, " ")
}

// quoteShell makes a word of text that a POSIX shell takes as it is.
func quoteShell(text string) string {
	plain := func(r rune) bool {
		return r < 0x80 && (strings.ContainsRune("-_./:=,@%+", r) ||
			'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9')
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// JoinCommand makes a command line that starts a node which joins by a bootstrap token, as `kubeadm join` does. The
// node checks by the token and by the authority's hash that it joins this cluster, requests its certificates, and gets
// no key. Containers of the command carry the cluster's labels: those on the cluster's engine are removed with it.
// It returns when the token can be used.
func (c *Cluster) JoinCommand(ctx context.Context, o JoinOptions) (JoinCommand, error) {
	if err := o.validate(); err != nil {
		return JoinCommand{}, fmt.Errorf("join command: %w", err)
	}
	if _, ok := c.backend.(backend.Joinable); !ok {
		return JoinCommand{}, fmt.Errorf("join command: %w: containers can't join a cluster in a process",
			ErrUnsupported)
	}
	made, err := c.joinCommand(ctx, o)
	if err != nil {
		return JoinCommand{}, fmt.Errorf("join command: %w", err)
	}
	return made, nil
}

func (c *Cluster) joinCommand(ctx context.Context, o JoinOptions) (JoinCommand, error) {
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return JoinCommand{}, err
	}
	l, err := c.prepareJoining(ctx, client)
	if err != nil {
		return JoinCommand{}, err
	}
	token, err := c.joinToken(ctx, o)
	if err != nil {
		return JoinCommand{}, err
	}
	if err := awaitSignature(ctx, client, token); err != nil {
		return JoinCommand{}, err
	}
	authority, err := c.authority()
	if err != nil {
		return JoinCommand{}, err
	}
	made := JoinCommand{Token: token.String()}
	if made.Hash, err = join.PinOf(authority); err != nil {
		return JoinCommand{}, err
	}
	if made.Server, err = c.serverFor(ctx, l, o); err != nil {
		return JoinCommand{}, err
	}
	made.Args = l.dockerRun(o)
	made.Args = append(made.Args, l.config.image(Node), "join", made.Server, "--token", made.Token,
		"--discovery-token-ca-cert-hash", made.Hash)
	return made, nil
}

func (o JoinOptions) validate() error {
	if o.NodeName != "" {
		if wrong := validation.IsDNS1123Subdomain(o.NodeName); len(wrong) > 0 {
			return fmt.Errorf("node name %q: %s", o.NodeName, strings.Join(wrong, "; "))
		}
	}
	options := NodeOptions{Labels: o.Labels, Taints: o.Taints}
	if err := options.validate(); err != nil {
		return err
	}
	if _, admin := options.split(); len(admin) > 0 {
		return fmt.Errorf("labels %v: a kubelet may not set them of itself; kubectl label node can, once it is there",
			slices.Sorted(maps.Keys(admin)))
	}
	return nil
}

// joinLayout is a layout of the cluster as it runs, to describe nodes that join.
type joinLayout struct {
	layout
	attachment backend.Attachment
}

// prepareJoining creates what joining needs, or brings it up to date. In a process, where no container can join, that
// is what a kubelet needs by itself; the layout is nil then.
func (c *Cluster) prepareJoining(ctx context.Context, client kubernetes.Interface) (*joinLayout, error) {
	objects, server := addons.ClusterInfoAccess(), c.rest.Host
	var services []string
	l, err := c.joinLayout(ctx)
	if err != nil {
		return nil, err
	}
	if l != nil {
		server = l.apiURL(Node)
		config, err := l.joinConfig()
		if err != nil {
			return nil, err
		}
		content, err := config.Object()
		if err != nil {
			return nil, err
		}
		if err := replaceSecret(ctx, client, content); err != nil {
			return nil, err
		}
		objects, services = append(objects, addons.RoutesRole()), config.Services
	}
	objects = append(objects, addons.NodeJoining(services)...)
	authority, err := c.authority()
	if err != nil {
		return nil, err
	}
	info, err := join.ClusterInfo(server, authority)
	if err != nil {
		return nil, err
	}
	return l, addons.Apply(ctx, client, append(objects, info))
}

// joinLayout is nil for a cluster that containers can't join.
func (c *Cluster) joinLayout(ctx context.Context) (*joinLayout, error) {
	joinable, ok := c.backend.(backend.Joinable)
	if !ok {
		return nil, nil
	}
	config, err := c.nodeConfig(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case !config.hasPodNetwork():
		return nil, fmt.Errorf("cluster %s was started without nodes in containers, and has no pod network; start it "+
			"with one", c.Name())
	case !config.runs(ControllerManager):
		return nil, fmt.Errorf("cluster %s has no controller manager, which signs for tokens, and certificates of "+
			"nodes", c.Name())
	}
	attachment, err := joinable.Attachment(ctx)
	if err != nil {
		return nil, err
	}
	ids, err := c.identities(ctx)
	if err != nil {
		return nil, err
	}
	return &joinLayout{layout: layout{config: config, addressing: attachment.Addressing, ids: ids},
		attachment: attachment}, nil
}

// replaceSecret creates a Secret, or replaces its content.
func replaceSecret(ctx context.Context, client kubernetes.Interface, wanted *corev1.Secret) error {
	secrets := client.CoreV1().Secrets(wanted.Namespace)
	_, err := secrets.Create(ctx, wanted, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(ctx, wanted, metav1.UpdateOptions{})
	}
	return err
}

// joinToken is the token of the options, which exists.
func (c *Cluster) joinToken(ctx context.Context, o JoinOptions) (join.Token, error) {
	if o.Token == "" {
		made, err := c.CreateToken(ctx, o.NewToken)
		if err != nil {
			return join.Token{}, err
		}
		return join.Parse(made.Token)
	}
	t, err := join.Parse(o.Token)
	if err != nil {
		return t, err
	}
	all, err := c.Tokens(ctx)
	if err != nil {
		return t, err
	}
	if !slices.ContainsFunc(all, func(other Token) bool { return other.Token == o.Token }) {
		return t, fmt.Errorf("the cluster has no token %s with this secret; `quintet token list` shows those it has",
			t.ID)
	}
	return t, nil
}

// awaitSignature returns when nodes can trust cluster-info by the token.
func awaitSignature(ctx context.Context, client kubernetes.Interface, t join.Token) error {
	ctx, cancel := context.WithTimeout(ctx, signedWithin)
	defer cancel()
	err := until(ctx, func(ctx context.Context) error {
		info, err := client.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(ctx, "cluster-info", metav1.GetOptions{})
		if err == nil && !join.SignedBy(info, t) {
			err = errors.New("the ConfigMap kube-public/cluster-info is not signed")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("token %s: %w (it needs the usage signing, and the controller "+
			"bootstrap-signer-controller of the controller manager)", t.ID, err)
	}
	return nil
}

// serverFor is host:port of the API for the node.
func (c *Cluster) serverFor(ctx context.Context, l *joinLayout, o JoinOptions) (string, error) {
	if !o.Elsewhere {
		at, err := url.Parse(l.apiURL(Node))
		if err != nil {
			return "", err
		}
		return at.Host, nil
	}
	at, err := url.Parse(c.rest.Host)
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(at.Hostname()); at.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return "", fmt.Errorf("other machines don't reach %s, where the API is published; start the cluster with "+
			"TESTCONTAINERS_HOST_OVERRIDE set to an address of this machine", at.Host)
	}
	return at.Host, nil
}

// dockerRun is the command line up to the image.
func (l *joinLayout) dockerRun(o JoinOptions) []string {
	args := []string{"docker", "run", "--detach"}
	if o.NodeName != "" {
		args = append(args, "--name", l.config.name+"-"+o.NodeName, "--env", "NODE_NAME="+o.NodeName)
	}
	kubeletArgs := NodeOptions{Labels: o.Labels, Taints: o.Taints}.args()
	for _, arg := range kubeletArgs {
		for flag, variable := range map[string]string{
			"--node-labels=": "NODE_LABELS=", "--register-with-taints=": "NODE_TAINTS="} {
			if value, ok := strings.CutPrefix(arg, flag); ok {
				args = append(args, "--env", variable+value)
			}
		}
	}
	if !o.Elsewhere {
		args = append(args, "--network", l.attachment.Network)
	}
	for _, key := range slices.Sorted(maps.Keys(l.attachment.Labels)) {
		args = append(args, "--label", key+"="+l.attachment.Labels[key])
	}
	args = append(args, l.attachment.RunFlags...)
	if grace := l.config.shutdown.stopGrace(); grace > 0 {
		args = append(args, "--stop-timeout", strconv.Itoa(int(grace.Round(time.Second).Seconds())))
	}
	return append(args, "--volume", kubelets)
}
