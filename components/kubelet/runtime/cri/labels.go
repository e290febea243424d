package cri

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelettypes "k8s.io/kubelet/pkg/types"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Labels of sandboxes and containers, by the names that tools of CRI look for, and annotations of what an engine has no
// use for and a kubelet that is started again has.
const (
	labelPodName      = kubelettypes.KubernetesPodNameLabel
	labelPodNamespace = kubelettypes.KubernetesPodNamespaceLabel
	labelPodUID       = kubelettypes.KubernetesPodUIDLabel
	labelContainer    = kubelettypes.KubernetesContainerNameLabel
	labelNode         = "io.quintet.node"

	noteHash          = "io.kubernetes.container.hash"
	noteMessageFile   = "io.quintet.termination-message-file"
	noteImage         = "io.quintet.image"
	noteMemoryRequest = "io.quintet.memory-request"
	noteHostname      = "io.quintet.hostname"
	noteHostPorts     = "io.quintet.host-ports"
)

func podLabels(pod runtime.PodRef, node string, own map[string]string) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, own)
	labels[labelPodName] = pod.Name
	labels[labelPodNamespace] = pod.Namespace
	labels[labelPodUID] = string(pod.UID)
	labels[labelNode] = node
	return labels
}

func podOf(labels map[string]string) runtime.PodRef {
	return runtime.PodRef{UID: types.UID(labels[labelPodUID]), Namespace: labels[labelPodNamespace],
		Name: labels[labelPodName]}
}

// selector finds what a node has, or of a pod if uid is not "".
func selector(node string, uid types.UID) map[string]string {
	labels := map[string]string{labelNode: node}
	if uid != "" {
		labels[labelPodUID] = string(uid)
	}
	return labels
}

// setPorts notes the ports of a sandbox. A pod's own annotation of the name does not count.
func setPorts(annotations map[string]string, ports []v1.ContainerPort) error {
	delete(annotations, noteHostPorts)
	if len(ports) == 0 {
		return nil
	}
	data, err := json.Marshal(ports)
	annotations[noteHostPorts] = string(data)
	return err
}

func portsOf(annotations map[string]string) []v1.ContainerPort {
	var ports []v1.ContainerPort
	if err := json.Unmarshal([]byte(annotations[noteHostPorts]), &ports); err != nil {
		return nil // it has none
	}
	return ports
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0 // another kubelet made it
	}
	return n
}

// podLogs is the directory of a pod's logs, as log collectors expect it.
func podLogs(dir string, pod runtime.PodRef) string {
	return filepath.Join(dir, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
}

// logFile is the file of a container's output, in the directory of its pod.
func logFile(name string, attempt int) string {
	return filepath.Join(name, strconv.Itoa(attempt)+".log")
}

func metadataOf(pod runtime.PodRef, attempt int) *cri.PodSandboxMetadata {
	return &cri.PodSandboxMetadata{Name: pod.Name, Uid: string(pod.UID), Namespace: pod.Namespace,
		Attempt: uint32(attempt)}
}
