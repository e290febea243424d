package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// KubeletConfig reads how the kubelet of a node is configured (/configz); nil if that is not told.
func (c *Cluster) KubeletConfig(ctx context.Context, node string) (*kubeletconfig.KubeletConfiguration, error) {
	raw, err := c.Client.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").
		Suffix("configz").DoRaw(ctx)
	if status := apierrors.APIStatus(nil); errors.As(err, &status) { // it is not shown, or not to the suite
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var answer struct {
		KubeletConfig *kubeletconfig.KubeletConfiguration `json:"kubeletconfig"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, fmt.Errorf("configuration of the kubelet of node %s: %w", node, err)
	}
	return answer.KubeletConfig, nil
}

// HugePages is the first size of huge pages that pods of a node may have, as a resource; "" if there is none.
func HugePages(node *corev1.Node) corev1.ResourceName {
	var sizes []corev1.ResourceName
	for name, amount := range node.Status.Allocatable {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) && !amount.IsZero() {
			sizes = append(sizes, name)
		}
	}
	if len(sizes) == 0 {
		return ""
	}
	return slices.Min(sizes)
}

// NodeWith returns a node that runs pods and whose kubelet is configured in a way, with that configuration; nil if
// there is none.
func (c *Cluster) NodeWith(ctx context.Context, fits func(*kubeletconfig.KubeletConfiguration) bool) (*corev1.Node,
	*kubeletconfig.KubeletConfiguration, error) {
	nodes, err := c.readyNodes(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i := range nodes {
		config, err := c.KubeletConfig(ctx, nodes[i].Name)
		if err != nil {
			return nil, nil, err
		}
		if config != nil && fits(config) {
			return &nodes[i], config, nil
		}
	}
	return nil, nil, nil
}

// RotatesLogs tells that a configuration says when logs are rotated, as that of a kubelet which shows all of it does.
func RotatesLogs(c *kubeletconfig.KubeletConfiguration) bool { return c.ContainerLogMaxSize != "" }

// ReadsManifests tells that a kubelet runs static pods.
func ReadsManifests(c *kubeletconfig.KubeletConfiguration) bool { return c.StaticPodPath != "" }

// LimitsPIDs tells that a kubelet bounds the processes of pods.
func LimitsPIDs(c *kubeletconfig.KubeletConfiguration) bool {
	return c.PodPidsLimit != nil && *c.PodPidsLimit > 0
}

// probeKubelets looks for what the kubelets of nodes are configured for.
func (c *Cluster) probeKubelets(ctx context.Context) error {
	for feature, fits := range map[Feature]func(*kubeletconfig.KubeletConfiguration) bool{
		KubeletConfigs: RotatesLogs, StaticPods: ReadsManifests, PIDLimit: LimitsPIDs,
	} {
		node, _, err := c.NodeWith(ctx, fits)
		if err != nil {
			return err
		}
		c.Features[feature] = node != nil
	}
	nodes, err := c.readyNodes(ctx)
	c.Features[HasHugePages] = slices.ContainsFunc(nodes, func(n corev1.Node) bool { return HugePages(&n) != "" })
	return err
}
