package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

const (
	staticDocs   = "https://kubernetes.io/docs/tasks/configure-pod-container/static-pod/"
	pidDocs      = "https://kubernetes.io/docs/concepts/policy/pid-limiting/#pod-pid-limits"
	hugePageDocs = "https://kubernetes.io/docs/tasks/manage-hugepages/scheduling-hugepages/"
)

// kubeletCases depend on how a kubelet, as it shows, is configured.
func kubeletCases() []suite.Case {
	return since("0.3", []suite.Case{
		{ID: "node/static-pod", Run: staticPod, Reference: staticDocs, Needs: []suite.Feature{suite.StaticPods},
			Requirement: "The pod of a manifest MUST run and be shown by a mirror pod, which is made again where " +
				"it is deleted, and both MUST go with the manifest."},
		{ID: "node/pid-limit", Run: pidLimit, Reference: pidDocs, Needs: []suite.Feature{suite.PIDLimit},
			Requirement: "A pod MUST have no more processes than podPidsLimit of its node."},
		{ID: "node/huge-pages", Run: hugePages, Reference: hugePageDocs, Needs: []suite.Feature{suite.HasHugePages},
			Requirement: "A pod that asks for huge pages MUST find them in an emptyDir of medium HugePages."},
		{ID: "node/log-rotation", Run: logRotation, Reference: logDocs + "#log-rotation",
			Needs: []suite.Feature{suite.KubeletConfigs},
			Requirement: "The log of a container that writes more than containerLogMaxSize MUST be rotated on the " +
				"node, and nothing but its end be readable."},
	})
}

// configured returns a node whose kubelet is configured in a way.
func configured(ctx context.Context, t *suite.T, fits func(*kubeletconfig.KubeletConfiguration) bool) (string,
	*kubeletconfig.KubeletConfiguration) {
	node, config, err := t.NodeWith(ctx, fits)
	t.Must(err, "read the configuration of kubelets")
	t.Expect(node).NotTo(BeNil(), "a node whose kubelet is configured so")
	return node.Name, config
}

func staticPod(ctx context.Context, t *suite.T) {
	node, config := configured(ctx, t, suite.ReadsManifests)
	p := t.Pod("static", "sleep", "forever")
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	manifest, err := json.Marshal(p)
	t.Must(err, "encode the manifest")
	file, kind := "/manifests/"+t.Namespace+".json", corev1.HostPathDirectoryOrCreate
	writer := on(withVolume(t.Pod("writer", "sleep", "forever"),
		corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: config.StaticPodPath, Type: &kind}},
		corev1.VolumeMount{MountPath: "/manifests"}), node)
	t.CreatePod(ctx, writer)
	running(ctx, t, "writer")
	t.Cleanup(func(ctx context.Context) {
		_, _, _ = execute(ctx, t, "writer", "", "testimage", "remove", file)
		suite.WaitFor(ctx, t, "the mirror pod gone", gone(t, "static-"+node), BeTrue())
	})
	_, _, err = execute(ctx, t, "writer", "", "testimage", "write", file, string(manifest))
	t.Must(err, "write the manifest")

	mirror := running(ctx, t, "static-"+node)
	t.Expect(mirror.Annotations).To(HaveKey(corev1.MirrorPodAnnotationKey))
	t.Expect(mirror.Spec.NodeName).To(Equal(node))
	t.Expect(mirror.OwnerReferences).To(HaveExactElements(And(HaveField("Kind", "Node"), HaveField("Name", node))))
	t.Must(t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, mirror.Name,
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}), "delete the mirror pod")
	again := suite.WaitFor(ctx, t, "another mirror pod", t.GetPod(mirror.Name),
		And(HaveField("UID", Not(Equal(mirror.UID))), Satisfy(isReady(corev1.ConditionTrue))))
	t.Expect(container(again, "main").ContainerID).To(Equal(container(mirror, "main").ContainerID),
		"the pod itself runs on")

	_, _, err = execute(ctx, t, "writer", "", "testimage", "remove", file)
	t.Must(err, "remove the manifest")
	suite.WaitFor(ctx, t, "the mirror pod gone", gone(t, mirror.Name), BeTrue())
}

// mostPIDs is how many threads a case starts at most.
const mostPIDs = 20000

func pidLimit(ctx context.Context, t *suite.T) {
	node, config := configured(ctx, t, suite.LimitsPIDs)
	limit := *config.PodPidsLimit
	if limit > mostPIDs {
		t.Fault(fmt.Errorf("podPidsLimit is %d: that many processes can't be tried", limit))
	}
	t.CreatePod(ctx, on(t.Pod("modest", "threads", fmt.Sprint(limit/2)), node))
	ended(ctx, t, "modest", corev1.PodSucceeded)
	t.CreatePod(ctx, on(t.Pod("greedy", "threads", fmt.Sprint(limit+1)), node))
	ended(ctx, t, "greedy", corev1.PodFailed)
	t.Expect(log(ctx, t, "greedy", &corev1.PodLogOptions{LimitBytes: ptr.To[int64](4096)})).To(
		ContainSubstring("failed to create new OS thread"))
}

func hugePages(ctx context.Context, t *suite.T) {
	var node string
	var page corev1.ResourceName
	for _, n := range mustNodes(ctx, t) {
		if page = suite.HugePages(&n); page != "" {
			node = n.Name
			break
		}
	}
	if node == "" {
		t.Fault(errors.New("no node has huge pages"))
	}
	amount := resource.MustParse(strings.TrimPrefix(string(page), corev1.ResourceHugePagesPrefix))
	p := on(withVolume(t.Pod("huge", "cat", "/proc/mounts"), corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumHugePages}},
		corev1.VolumeMount{MountPath: "/huge"}), node)
	p.Spec.Containers[0].Resources.Limits = amounts("100m", "64Mi")
	p.Spec.Containers[0].Resources.Limits[page] = amount
	t.Expect(outputOf(ctx, t, p)).To(ContainElement(MatchRegexp(`^\S+ /huge hugetlbfs `)))
}

// logRotation writes a little more than a file may have: what is rotated away is not read any more.
func logRotation(ctx context.Context, t *suite.T) {
	node, config := configured(ctx, t, suite.RotatesLogs)
	size := resource.MustParse(config.ContainerLogMaxSize)
	const lineBytes, mostBytes = 1000, 64 << 20
	if size.Value() > mostBytes {
		t.Fault(fmt.Errorf("containerLogMaxSize is %v: that much can't be tried", &size))
	}
	lines := size.Value()/lineBytes + 2
	t.CreatePod(ctx, on(t.Pod("verbose", "print", fmt.Sprint(lines), "--text="+strings.Repeat("x", lineBytes), "then",
		"print", "1", "--text=the end", "then", "sleep", "forever"), node))
	verbose := running(ctx, t, "verbose")
	logs, kind := config.PodLogsDir, corev1.HostPathDirectory
	if logs == "" {
		logs = "/var/log/pods"
	}
	reader := on(withVolume(t.Pod("reader", "sleep", "forever"),
		corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: logs, Type: &kind}},
		corev1.VolumeMount{MountPath: "/logs"}), node)
	t.CreatePod(ctx, reader)
	running(ctx, t, "reader")
	dir := fmt.Sprintf("/logs/%s_verbose_%s/main", t.Namespace, verbose.UID)
	suite.WaitFor(ctx, t, "a second file of the log", func(ctx context.Context) ([]string, error) {
		out, _, err := execute(ctx, t, "reader", "", "testimage", "ls", dir)
		return strings.Fields(out), err
	}, WithTransform(func(files []string) int { return len(files) }, BeNumerically(">=", 2)))
	t.Expect(log(ctx, t, "verbose", &corev1.PodLogOptions{TailLines: ptr.To[int64](1)})).To(
		Or(BeEmpty(), Equal("the end 1\n")), "nothing of what was rotated away comes as the end")
}
