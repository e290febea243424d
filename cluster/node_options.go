package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"quintet.dev/quintet/cluster/internal/backend"
)

// NodeOptions describe one node. The zero value is a node like any other.
type NodeOptions struct {
	// Role is what `kubectl get nodes` shows: the label node-role.kubernetes.io/<Role>. It may be empty.
	Role string
	// Labels of the Node object. Those that the kubelet may not set of itself
	// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction) are set once the
	// node is registered.
	Labels map[string]string
	// Taints with which the node registers.
	Taints []corev1.Taint
	// Args are further arguments of the kubelet, after those of WithArgs(Node, ...).
	Args []string
	// Mounts are directories and files of the Docker engine's host in the node's container.
	Mounts []Mount
	// Ports are ports of the node's container that are reachable on the Docker engine's host.
	Ports []PortMapping
}

// Mount is a directory or file of the Docker engine's host, as it is in a node. Pods reach it as a hostPath volume of
// ContainerPath.
type Mount struct {
	// HostPath is absolute, and exists.
	HostPath string
	// ContainerPath is absolute.
	ContainerPath string
	ReadOnly      bool
}

// PortMapping makes a port of a node reachable on the Docker engine's host.
type PortMapping struct {
	ContainerPort, HostPort int
	// Protocol is TCP, UDP or SCTP; TCP if it is empty.
	Protocol corev1.Protocol
	// ListenAddress is the address of the host; 127.0.0.1, or all if the engine is on another machine, if it is empty.
	ListenAddress string
}

// WithNode describes one node: the first call the first node, and so on. Without WithNodes there are as many nodes as
// calls; with it, further nodes have no options.
func WithNode(o NodeOptions) Option {
	return func(c *config) error {
		if err := o.validate(); err != nil {
			return fmt.Errorf("node-%d: %w", len(c.nodeOptions)+1, err)
		}
		c.nodeOptions = append(c.nodeOptions, o)
		if !c.nodesSet {
			c.nodes = len(c.nodeOptions)
		}
		return nil
	}
}

func (o NodeOptions) validate() error {
	errs := metavalidation.ValidateLabels(o.labels(), field.NewPath("labels"))
	for i, taint := range o.Taints {
		errs = append(errs, validateTaint(taint, field.NewPath("taints").Index(i))...)
	}
	for i, arg := range o.Args {
		if !strings.HasPrefix(arg, "-") {
			errs = append(errs, field.Invalid(field.NewPath("args").Index(i), arg, "want a flag of the kubelet: --NAME=VALUE"))
		}
	}
	for i, m := range o.Mounts {
		at := field.NewPath("mounts").Index(i)
		if !path.IsAbs(m.HostPath) {
			errs = append(errs, field.Invalid(at.Child("hostPath"), m.HostPath, "want an absolute path"))
		}
		if !path.IsAbs(m.ContainerPath) {
			errs = append(errs, field.Invalid(at.Child("containerPath"), m.ContainerPath, "want an absolute path"))
		}
	}
	for i, p := range o.Ports {
		errs = append(errs, p.validate(field.NewPath("ports").Index(i))...)
	}
	return errs.ToAggregate()
}

func validateTaint(taint corev1.Taint, at *field.Path) (errs field.ErrorList) {
	for _, message := range validation.IsQualifiedName(taint.Key) {
		errs = append(errs, field.Invalid(at.Child("key"), taint.Key, message))
	}
	for _, message := range validation.IsValidLabelValue(taint.Value) {
		errs = append(errs, field.Invalid(at.Child("value"), taint.Value, message))
	}
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule,
		corev1.TaintEffectNoExecute}
	if !slices.Contains(effects, taint.Effect) {
		errs = append(errs, field.NotSupported(at.Child("effect"), taint.Effect, effects))
	}
	return errs
}

func (p PortMapping) validate(at *field.Path) (errs field.ErrorList) {
	for name, port := range map[string]int{"containerPort": p.ContainerPort, "hostPort": p.HostPort} {
		for _, message := range validation.IsValidPortNum(port) {
			errs = append(errs, field.Invalid(at.Child(name), port, message))
		}
	}
	protocols := []corev1.Protocol{"", corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
	if !slices.Contains(protocols, p.Protocol) {
		errs = append(errs, field.NotSupported(at.Child("protocol"), p.Protocol, protocols[1:]))
	}
	if p.ListenAddress != "" {
		if _, err := netip.ParseAddr(p.ListenAddress); err != nil {
			errs = append(errs, field.Invalid(at.Child("listenAddress"), p.ListenAddress, "want an IP address"))
		}
	}
	return errs
}

// published is the mapping as back ends have it.
func (p PortMapping) published() backend.PublishedPort {
	address, _ := netip.ParseAddr(p.ListenAddress) // the zero value if it is empty; it was validated
	protocol := p.Protocol
	if protocol == "" {
		protocol = corev1.ProtocolTCP
	}
	return backend.PublishedPort{Host: p.HostPort, Member: p.ContainerPort, Address: address,
		Protocol: strings.ToLower(string(protocol))}
}

// labels are all of the node's, with that of its role.
func (o NodeOptions) labels() map[string]string {
	labels := maps.Clone(o.Labels)
	if o.Role != "" {
		if labels == nil {
			labels = map[string]string{}
		}
		labels["node-role.kubernetes.io/"+o.Role] = ""
	}
	return labels
}

// split sorts labels into those that a kubelet may set, and those that are the administrator's.
func (o NodeOptions) split() (kubelet, admin map[string]string) {
	kubelet, admin = map[string]string{}, map[string]string{}
	for key, value := range o.labels() {
		if reserved(key) && !kubeletapis.IsKubeletLabel(key) {
			admin[key] = value
		} else {
			kubelet[key] = value
		}
	}
	return kubelet, admin
}

// reserved tells whether a label is of Kubernetes' own namespaces.
func reserved(label string) bool {
	namespace, _, qualified := strings.Cut(label, "/")
	if !qualified {
		return false
	}
	for _, own := range []string{"kubernetes.io", "k8s.io"} {
		if namespace == own || strings.HasSuffix(namespace, "."+own) {
			return true
		}
	}
	return false
}

// args are the kubelet's.
func (o NodeOptions) args() []string {
	var args, labels, taints []string
	kubelet, _ := o.split()
	for _, key := range slices.Sorted(maps.Keys(kubelet)) {
		labels = append(labels, key+"="+kubelet[key])
	}
	if len(labels) > 0 {
		args = append(args, "--node-labels="+joined(labels))
	}
	for _, taint := range o.Taints {
		taints = append(taints, taint.ToString())
	}
	if len(taints) > 0 {
		args = append(args, "--register-with-taints="+joined(taints))
	}
	return append(args, o.Args...)
}

// ofNode are the options of a node; those of one that was added later are in the configuration, too.
func (c *config) ofNode(name string) NodeOptions {
	if i := nodeNumber(name) - 1; i >= 0 && i < len(c.nodeOptions) {
		return c.nodeOptions[i]
	}
	return NodeOptions{}
}

// nodeNumber is the number in a node's name, or 0.
func nodeNumber(name string) int {
	var n int
	if _, err := fmt.Sscanf(name, "node-%d", &n); err != nil {
		return 0
	}
	return n
}

// checkNodes holds what was said of nodes against those that there are.
func (c *config) checkNodes() error {
	switch {
	case len(c.nodeOptions) > 0 && c.without[Node]:
		return fmt.Errorf("options of node-1: %s", c.whyMissing(Node))
	case len(c.nodeOptions) > c.nodes:
		return fmt.Errorf("%d nodes: %d are described by WithNode; ask for at least as many", c.nodes,
			len(c.nodeOptions))
	}
	taken := map[string]string{}
	for port := range c.publish {
		taken[fmt.Sprintf("%d/tcp", port)] = "published port"
	}
	for i, o := range c.nodeOptions {
		name := fmt.Sprintf("node-%d", i+1)
		if c.hollow() && len(o.Mounts)+len(o.Ports) > 0 {
			return fmt.Errorf("mounts and ports of %s: the nodes of a cluster in process are hollow", name)
		}
		for _, p := range o.Ports {
			published := p.published()
			key := fmt.Sprintf("%d/%s", published.Host, published.Protocol)
			if by, ok := taken[key]; ok {
				return fmt.Errorf("ports of %s: host port %s is taken by the %s", name, key, by)
			}
			taken[key] = "ports of " + name
		}
	}
	return nil
}

// nodesSetUp gives nodes the labels that are the administrator's to set, and the images that they are to have.
func (s *start) nodesSetUp(ctx context.Context) error {
	if err := s.cluster.loadImages(ctx, s.cluster.machines()); err != nil {
		return err
	}
	for i, o := range s.cluster.config.nodeOptions {
		if err := s.cluster.labelNode(ctx, fmt.Sprintf("node-%d", i+1), o); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) labelNode(ctx context.Context, name string, o NodeOptions) error {
	_, labels := o.split()
	if len(labels) == 0 {
		return nil
	}
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
