package server

import (
	"fmt"
	"net/http"
)

// checkpoint answers as upstream's kubelet does whose engine can't make checkpoints
// (https://kubernetes.io/docs/reference/node/kubelet-checkpoint-api/).
func (s *Server) checkpoint(w http.ResponseWriter, r *http.Request) {
	pod, err := s.pod(r)
	if err != nil {
		fail(w, err)
		return
	}
	name := r.PathValue("container")
	if containerStatus(pod, name) == nil {
		fail(w, &failure{http.StatusNotFound, fmt.Sprintf("container %v does not exist", name)})
		return
	}
	fail(w, &failure{http.StatusNotFound, fmt.Sprintf("checkpointing of %v/%v/%v failed (rpc error: code = Unimplemented "+
		"desc = method CheckpointContainer not implemented)", pod.Namespace, pod.Name, name)})
}
