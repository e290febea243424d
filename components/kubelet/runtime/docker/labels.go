package docker

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubelettypes "k8s.io/kubelet/pkg/types"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Labels of containers. Those of pod and container are the names that log shippers and monitors look for.
const (
	labelPodName      = kubelettypes.KubernetesPodNameLabel
	labelPodNamespace = kubelettypes.KubernetesPodNamespaceLabel
	labelPodUID       = kubelettypes.KubernetesPodUIDLabel
	labelContainer    = kubelettypes.KubernetesContainerNameLabel
	labelType         = "io.kubernetes.docker.type"
	labelSandbox      = "io.kubernetes.sandbox.id"
	labelAttempt      = "annotation.io.kubernetes.container.restartCount"
	labelHash         = "annotation.io.kubernetes.container.hash"
	labelMessageFile  = "io.quintet.termination-message-file"
	labelNode         = "io.quintet.node"
	// labelMemoryRequest is written down because the engine has no use for a request of memory.
	labelMemoryRequest = "io.quintet.memory-request"
	// labelHostPorts is for the kubelet after a restart: the engine forwards no ports.
	labelHostPorts = "io.quintet.host-ports"

	typeSandbox   = "podsandbox"
	typeContainer = "container"
)

func podLabels(pod runtime.PodRef, node string, extra map[string]string) map[string]string {
	labels := map[string]string{}
	for key, value := range extra {
		labels[key] = value
	}
	labels[labelPodName] = pod.Name
	labels[labelPodNamespace] = pod.Namespace
	labels[labelPodUID] = string(pod.UID)
	labels[labelNode] = node
	return labels
}

func podOf(labels map[string]string) runtime.PodRef {
	return runtime.PodRef{
		UID:       types.UID(labels[labelPodUID]),
		Namespace: labels[labelPodNamespace],
		Name:      labels[labelPodName],
	}
}

// containerName is unique per node, pod, container and attempt: it makes creating idempotent.
func containerName(node string, pod runtime.PodRef, container string, attempt int) string {
	return fmt.Sprintf("k8s_%s_%s_%s_%s_%d_%s", container, pod.Name, pod.Namespace, pod.UID, attempt, dockerName(node))
}

// dockerName replaces what Docker does not allow in a name.
func dockerName(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		}
		return '-'
	}, s)
}

func attemptOf(labels map[string]string) int {
	attempt, err := strconv.Atoi(labels[labelAttempt])
	if err != nil {
		return 0 // made by hand: as if it were the first
	}
	return attempt
}

// setPorts notes the ports of a sandbox. A pod's own label of the name does not count.
func setPorts(labels map[string]string, ports []v1.ContainerPort) error {
	delete(labels, labelHostPorts)
	if len(ports) == 0 {
		return nil
	}
	data, err := json.Marshal(ports)
	labels[labelHostPorts] = string(data)
	return err
}

func portsOf(labels map[string]string) []v1.ContainerPort {
	var ports []v1.ContainerPort
	if err := json.Unmarshal([]byte(labels[labelHostPorts]), &ports); err != nil {
		return nil // of an earlier kubelet, whose engine forwards them
	}
	return ports
}
