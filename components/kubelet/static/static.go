// Package static runs pods of manifests on the node's own disk, or of one web page: it reads them, follows their
// changes, and shows each to the API server as a mirror pod
// (https://kubernetes.io/docs/tasks/configure-pod-container/static-pod/).
package static

import (
	v1 "k8s.io/api/core/v1"
)

// Annotations of static pods and of their mirrors.
const (
	hashAnnotation   = "kubernetes.io/config.hash"
	sourceAnnotation = "kubernetes.io/config.source"
	seenAnnotation   = "kubernetes.io/config.seen"
)

// Sources of pods, as the annotation names them.
const (
	fromFile = "file"
	fromHTTP = "http"
	fromAPI  = "api"
)

// Is tells a pod that this node runs from a manifest. Its mirror pod is not meant: nothing is run for that.
func Is(pod *v1.Pod) bool {
	source, ok := pod.Annotations[sourceAnnotation]
	return ok && source != fromAPI && !IsMirror(pod)
}

// IsMirror tells a pod of the API that only shows a static pod.
func IsMirror(pod *v1.Pod) bool {
	_, ok := pod.Annotations[v1.MirrorPodAnnotationKey]
	return ok
}
