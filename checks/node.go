package checks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Container is a container that a node's engine has, running or not.
type Container struct {
	ID      string // without the scheme that statuses have before it
	Pod     types.UID
	PodName string
	Name    string // "" for the container that holds the namespaces of the pod
	Running bool
}

// Node is what a node has, and what the API says of its pods. All of it is of one moment at which nothing changes.
type Node struct {
	// Pods are those that are bound to the node, in the API.
	Pods []corev1.Pod
	// Containers are those that the kubelet made.
	Containers []Container
	// Mounts are the mount points of the node; Directories the names in the kubelet's directory of pods.
	Mounts, Directories []string
	// Supervised are the IDs of the containers that processes of the engine, such as shims, stand for. nil is not known.
	Supervised []string
}

// Differences tells what a node has that no pod accounts for, and what pods lack: containers, mounts, directories and
// processes of pods that are gone, containers that run twice, and statuses that name containers that do not run. They
// are sorted.
func (n *Node) Differences() []error {
	pods := map[types.UID]*corev1.Pod{}
	for i := range n.Pods {
		pods[n.Pods[i].UID] = &n.Pods[i]
	}
	found := append(n.strays(pods), n.missing()...)
	for _, point := range n.Mounts {
		if uid, ok := podOfPath(point); ok && pods[uid] == nil {
			found = append(found, fmt.Errorf("mount %s is of a pod that is gone", point))
		}
	}
	for _, name := range n.Directories {
		if pods[types.UID(name)] == nil {
			found = append(found, fmt.Errorf("directory %s is of a pod that is gone", name))
		}
	}
	slices.SortFunc(found, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return found
}

// strays are containers and processes that should not be there.
func (n *Node) strays(pods map[types.UID]*corev1.Pod) (found []error) {
	type place struct {
		pod  types.UID
		name string
	}
	running, ids := map[place]string{}, map[string]bool{}
	for _, c := range n.Containers {
		pod := pods[c.Pod]
		switch {
		case pod == nil:
			found = append(found, fmt.Errorf("container %s (%s of pod %s) is of a pod that is gone", c.ID, c.Name, c.PodName))
		case c.Running && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed):
			found = append(found, fmt.Errorf("container %s (%s of pod %s) runs, but the pod is %s", c.ID, c.Name, c.PodName,
				pod.Status.Phase))
		}
		if !c.Running {
			continue
		}
		ids[c.ID] = true
		at := place{c.Pod, c.Name}
		if other, twice := running[at]; twice {
			found = append(found, fmt.Errorf("containers %s and %s both run as %q of pod %s", min(other, c.ID),
				max(other, c.ID), c.Name, c.PodName))
		}
		running[at] = c.ID
	}
	for _, id := range n.Supervised {
		if !ids[id] {
			found = append(found, fmt.Errorf("a process stands for container %s, which does not run", id))
		}
	}
	return found
}

// missing are containers that pods of the API have, and the engine does not.
func (n *Node) missing() (found []error) {
	running, held := map[string]bool{}, map[types.UID]bool{}
	for _, c := range n.Containers {
		if c.Running {
			running[c.ID] = true
			held[c.Pod] = held[c.Pod] || c.Name == ""
		}
	}
	for i := range n.Pods {
		pod := &n.Pods[i]
		if pod.Status.Phase != corev1.PodRunning {
			continue
		}
		if !held[pod.UID] {
			found = append(found, fmt.Errorf("pod %s is Running, but its sandbox does not", pod.Name))
		}
		for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			_, id, _ := strings.Cut(s.ContainerID, "://")
			if s.State.Running != nil && !running[id] {
				found = append(found, fmt.Errorf("pod %s says that %s runs as %s, which does not", pod.Name, s.Name, id))
			}
		}
	}
	return found
}

// podOfPath is the UID in a path below a kubelet's directory of pods.
func podOfPath(path string) (types.UID, bool) {
	_, rest, ok := strings.Cut(path, "/kubelet/pods/")
	uid, _, _ := strings.Cut(rest, "/")
	return types.UID(uid), ok && uid != ""
}

// CSICall is a call of a CSI driver's node service that was answered: what the driver's log of calls has in a line.
type CSICall struct {
	Method  string     `json:"method"`
	Request CSIRequest `json:"request"`
	Code    string     `json:"code"` // "OK"
}

// CSIRequest is the part of a request that is checked.
type CSIRequest struct {
	Volume  string `json:"volume_id"`
	Staging string `json:"staging_target_path"`
	Target  string `json:"target_path"`
}

// ParseCSICalls reads a log of calls, one JSON object per line. Other lines are passed over.
func ParseCSICalls(log string) []CSICall {
	var calls []CSICall
	for line := range strings.Lines(log) {
		var call CSICall
		if err := json.Unmarshal([]byte(line), &call); err == nil && call.Method != "" {
			calls = append(calls, call)
		}
	}
	return calls
}

// CSIBalance checks the calls of one node's driver: a volume is published where it is staged, and unstaged when it is
// published nowhere. It returns what is against that, and which pods still have a volume published after all calls. A
// call that was repeated, also after it was answered, is fine.
func CSIBalance(calls []CSICall) (publishedTo []types.UID, broken []error) {
	staged, published := map[string]bool{}, map[string]string{} // by volume; volume by target
	for i, c := range calls {
		if c.Code != "OK" {
			continue
		}
		r := c.Request
		switch c.Method {
		case "NodeStageVolume":
			staged[r.Volume] = true
		case "NodePublishVolume":
			if r.Staging != "" && !staged[r.Volume] {
				broken = append(broken, fmt.Errorf("call %d publishes %s, which is not staged", i, r.Volume))
			}
			published[r.Target] = r.Volume
		case "NodeUnpublishVolume":
			delete(published, r.Target)
		case "NodeUnstageVolume":
			for target, volume := range published {
				if volume == r.Volume {
					broken = append(broken, fmt.Errorf("call %d unstages %s, which is published on %s", i, volume, target))
				}
			}
			delete(staged, r.Volume)
		}
	}
	for _, volume := range published {
		delete(staged, volume)
	}
	for volume := range staged {
		broken = append(broken, fmt.Errorf("%s is staged and published nowhere", volume))
	}
	pods := map[types.UID]bool{}
	for target := range published {
		if uid, ok := podOfPath(target); ok {
			pods[uid] = true
		}
	}
	slices.SortFunc(broken, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return slices.Sorted(maps.Keys(pods)), broken
}
