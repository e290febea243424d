package framework

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"quintet.dev/quintet/components/scheduler/snapshot"
)

// lister is a fwk.SharedLister of the snapshot of a cycle. It must not be used outside of one.
type lister struct {
	snapshot *snapshot.Snapshot
	infos    []fwk.NodeInfo // made when first asked for
}

func (l *lister) NodeInfos() fwk.NodeInfoLister           { return l }
func (l *lister) StorageInfos() fwk.StorageInfoLister     { return l }
func (l *lister) PodGroupStates() fwk.PodGroupStateLister { return noGroups{} }

func (l *lister) List() ([]fwk.NodeInfo, error) {
	if l.infos == nil {
		nodes := l.snapshot.Nodes()
		l.infos = make([]fwk.NodeInfo, len(nodes))
		for i, n := range nodes {
			l.infos[i] = &nodeInfo{node: n, snapshot: l.snapshot}
		}
	}
	return l.infos, nil
}

func (l *lister) with(pods func(fwk.NodeInfo) []fwk.PodInfo) ([]fwk.NodeInfo, error) {
	all, err := l.List()
	var some []fwk.NodeInfo
	for _, info := range all {
		if len(pods(info)) > 0 {
			some = append(some, info)
		}
	}
	return some, err
}

func (l *lister) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	return l.with(fwk.NodeInfo.GetPodsWithAffinity)
}

func (l *lister) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return l.with(fwk.NodeInfo.GetPodsWithRequiredAntiAffinity)
}

func (l *lister) Get(name string) (fwk.NodeInfo, error) {
	n := l.snapshot.Node(name)
	if n == nil {
		return nil, apierrors.NewNotFound(v1.Resource("nodes"), name)
	}
	return &nodeInfo{node: n, snapshot: l.snapshot}, nil
}

// IsPVCUsedByPods takes "namespace/name".
func (l *lister) IsPVCUsedByPods(key string) bool {
	namespace, name, _ := strings.Cut(key, "/")
	return l.snapshot.ClaimUsers(types.NamespacedName{Namespace: namespace, Name: name}) > 0
}

// noGroups is a lister without groups of pods.
type noGroups struct{}

func (noGroups) PodGroupStates() fwk.PodGroupStateLister { return noGroups{} }

func (noGroups) Get(_, name string) (fwk.PodGroupState, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "scheduling.k8s.io", Resource: "podgroups"}, name)
}

// csiNodes is a fwk.CSIManager.
type csiNodes struct{ storagelisters.CSINodeLister }

func (c csiNodes) CSINodes() fwk.CSINodeLister { return c }

func (c csiNodes) List() ([]*storagev1.CSINode, error) {
	return c.CSINodeLister.List(labels.Everything())
}

// statuses is a fwk.NodeToStatusReader.
type statuses struct {
	byNode map[string]*fwk.Status
	absent *fwk.Status
}

func (s *statuses) Get(node string) *fwk.Status {
	if status, ok := s.byNode[node]; ok {
		return status
	}
	return s.absent
}

func (s *statuses) NodesForStatusCode(l fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	all, err := l.List()
	var some []fwk.NodeInfo
	for _, info := range all {
		if s.Get(info.Node().Name).Code() == code {
			some = append(some, info)
		}
	}
	return some, err
}
