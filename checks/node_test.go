package checks

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// sound is a node with a pod that runs, one that succeeded, and one whose containers wait.
func sound() *Node {
	pod := func(name string, phase corev1.PodPhase, containers ...corev1.ContainerStatus) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)},
			Status: corev1.PodStatus{Phase: phase, ContainerStatuses: containers}}
	}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	return &Node{
		Pods: []corev1.Pod{
			pod("a", corev1.PodRunning, corev1.ContainerStatus{Name: "main", ContainerID: "docker://a1", State: runs}),
			pod("b", corev1.PodSucceeded), pod("c", corev1.PodPending),
		},
		Containers: []Container{
			{ID: "a0", Pod: "uid-a", PodName: "a", Running: true},
			{ID: "a1", Pod: "uid-a", PodName: "a", Name: "main", Running: true},
			{ID: "a2", Pod: "uid-a", PodName: "a", Name: "main"},
			{ID: "b1", Pod: "uid-b", PodName: "b", Name: "main"},
		},
		Mounts:      []string{"/", "/var/lib/kubelet", "/var/lib/kubelet/pods/uid-a/volumes/kubernetes.io~csi/pv/mount"},
		Directories: []string{"uid-a", "uid-b"}, Supervised: []string{"a0", "a1"},
	}
}

func TestNodeDifferences(t *testing.T) {
	if found := sound().Differences(); len(found) > 0 {
		t.Errorf("a sound node: %v", found)
	}
	for want, change := range map[string]func(*Node){
		"container x (main of pod gone) is of a pod that is gone": func(n *Node) {
			n.Containers = append(n.Containers, Container{ID: "x", Pod: "uid-gone", PodName: "gone", Name: "main"})
		},
		`containers a1 and x both run as "main" of pod a`: func(n *Node) {
			n.Containers = append(n.Containers, Container{ID: "x", Pod: "uid-a", PodName: "a", Name: "main", Running: true})
		},
		"container b1 (main of pod b) runs, but the pod is Succeeded": func(n *Node) { n.Containers[3].Running = true },
		"pod a is Running, but its sandbox does not": func(n *Node) {
			n.Containers[0].Running, n.Supervised = false, []string{"a1"}
		},
		"pod a says that main runs as a1, which does not": func(n *Node) {
			n.Containers[1].Running, n.Supervised = false, []string{"a0"}
		},
		"mount /var/lib/kubelet/pods/x/volumes/v is of a pod that is gone": func(n *Node) {
			n.Mounts = append(n.Mounts, "/var/lib/kubelet/pods/x/volumes/v")
		},
		"directory x is of a pod that is gone": func(n *Node) { n.Directories = append(n.Directories, "x") },
		"a process stands for container a2, which does not run": func(n *Node) {
			n.Supervised = append(n.Supervised, "a2")
		},
	} {
		n := sound()
		change(n)
		if found := n.Differences(); len(found) != 1 || found[0].Error() != want {
			t.Errorf("got %v, want %s", found, want)
		}
	}
}

func TestCSIBalance(t *testing.T) {
	line := func(method, code, target string) string {
		return fmt.Sprintf(`{"method":"Node%sVolume","code":%q,"request":{"volume_id":"v","staging_target_path":"/s",`+
			`"target_path":"/var/lib/kubelet/pods/%s/volumes/mount"}}`, method, code, target) + "\n"
	}
	stage, publish := line("Stage", "OK", ""), line("Publish", "OK", "one")
	unpublish, unstage := line("Unpublish", "OK", "one"), line("Unstage", "OK", "")
	for name, test := range map[string]struct {
		log, broken string
		published   []types.UID
	}{
		"a life":               {log: "a line of klog\n" + stage + publish + unpublish + unstage},
		"repeated calls":       {log: stage + stage + publish + publish + unpublish + unpublish + unstage + unstage},
		"what failed":          {log: line("Publish", "Internal", "one") + stage + publish + unpublish + unstage},
		"in use":               {log: stage + publish, published: []types.UID{"one"}},
		"published too early":  {log: publish + unpublish, broken: "call 0 publishes v, which is not staged"},
		"unstaged too early":   {log: stage + publish + unstage + unpublish, broken: "call 2 unstages v, which is published"},
		"staged and forgotten": {log: stage + publish + unpublish, broken: "v is staged and published nowhere"},
	} {
		published, broken := CSIBalance(ParseCSICalls(test.log))
		if !slices.Equal(published, test.published) {
			t.Errorf("%s: published to %v", name, published)
		}
		if test.broken == "" != (len(broken) == 0) || len(broken) > 0 && !strings.HasPrefix(broken[0].Error(), test.broken) {
			t.Errorf("%s: %v, want %q", name, broken, test.broken)
		}
	}
}
