package node

import (
	"context"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

// mountPropagation has one container mount below a directory of the node that others have, too. It is the only one that
// is privileged, as Bidirectional demands.
func mountPropagation(ctx context.Context, t *suite.T) {
	node := mustNodes(ctx, t)[0].Name
	path, kind := "/tmp/"+t.Namespace, corev1.HostPathDirectoryOrCreate
	pod := func(name string, mode corev1.MountPropagationMode) *corev1.Pod {
		return on(withVolume(t.Pod(name, "sleep", "forever"),
			corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}},
			corev1.VolumeMount{MountPath: "/shared", MountPropagation: &mode}), node)
	}
	maker := pod("maker", corev1.MountPropagationBidirectional)
	maker.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	for _, p := range []*corev1.Pod{maker, pod("sees", corev1.MountPropagationHostToContainer),
		pod("apart", corev1.MountPropagationNone)} {
		t.CreatePod(ctx, p)
		running(ctx, t, p.Name)
	}
	t.Cleanup(func(ctx context.Context) { removeDirectories(ctx, t, node, path) })
	command := func(pod string, args ...string) string {
		out, errs, err := execute(ctx, t, pod, "", append([]string{"testimage"}, args...)...)
		t.Must(err, "run %v in %s (%s)", args, pod, errs)
		return out
	}
	command("maker", "mount", "/shared/inner", "then", "write", "/shared/inner/file", "text")
	t.Cleanup(func(ctx context.Context) {
		_, _, _ = execute(ctx, t, "maker", "", "testimage", "unmount", "/shared/inner")
	})
	t.Expect(command("sees", "cat", "/shared/inner/file")).To(Equal("text"))
	t.Expect(command("apart", "ls", "/shared/inner")).To(BeEmpty())
	command("maker", "unmount", "/shared/inner")
	t.Expect(command("sees", "ls", "/shared/inner")).To(BeEmpty(), "it goes as it came")
}

// removeDirectories removes a directory of a node's /tmp that has the empty directory "inner" in it.
func removeDirectories(ctx context.Context, t *suite.T, node, path string) {
	kind := corev1.HostPathDirectory
	host := "/host" + path[len("/tmp"):]
	t.CreatePod(ctx, on(withVolume(t.Pod("cleaner", "remove", host+"/inner", host),
		corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp", Type: &kind}},
		corev1.VolumeMount{MountPath: "/host"}), node))
	ended(ctx, t, "cleaner", corev1.PodSucceeded)
}
