package conformance

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/conformance/report"
	"quintet.dev/quintet/conformance/suite"
)

// describe tells what the cluster says it consists of.
func describe(ctx context.Context, cluster *suite.Cluster, name string) (report.Cluster, error) {
	version, err := cluster.Client.Discovery().ServerVersion()
	if err != nil {
		return report.Cluster{}, err
	}
	nodes, err := cluster.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return report.Cluster{}, err
	}
	pods, err := cluster.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
	if err != nil {
		return report.Cluster{}, err
	}
	about := report.Cluster{Name: cmp.Or(name, cluster.Config.Host), Server: cluster.Config.Host,
		Version: version.GitVersion, Commit: version.GitCommit, Platform: version.Platform, Images: images(pods.Items)}
	for _, n := range nodes.Items {
		info := n.Status.NodeInfo
		about.Nodes = append(about.Nodes, report.Node{
			Name: n.Name, Kubelet: info.KubeletVersion, Runtime: info.ContainerRuntimeVersion, OS: info.OSImage,
			Kernel: info.KernelVersion, Arch: info.Architecture, CPU: n.Status.Capacity.Cpu().String(),
			Memory: n.Status.Capacity.Memory().String(),
		})
	}
	return about, nil
}

// images lists what the containers of pods run from, each once, by container.
func images(pods []corev1.Pod) []report.Image {
	var out []report.Image
	for _, pod := range pods {
		for _, container := range pod.Spec.Containers {
			image := report.Image{Container: container.Name, Image: container.Image}
			for _, status := range pod.Status.ContainerStatuses {
				if status.Name == container.Name {
					image.ID = status.ImageID
				}
			}
			if !slices.Contains(out, image) {
				out = append(out, image)
			}
		}
	}
	slices.SortFunc(out, func(a, b report.Image) int {
		return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.Image, b.Image), cmp.Compare(a.ID, b.ID))
	})
	return out
}
