package node

import (
	"context"
	"testing"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func newPod(name, nodeName string) *corev1.Pod {
	optional := func(n string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: n} }
	return &corev1.Pod{ObjectMeta: meta("ns", name), Spec: corev1.PodSpec{
		NodeName: nodeName, ServiceAccountName: "sa", ImagePullSecrets: []corev1.LocalObjectReference{optional("pull")},
		Containers: []corev1.Container{{
			Env: []corev1.EnvVar{
				{ValueFrom: &corev1.EnvVarSource{
					SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: optional("env")}}}},
			EnvFrom: []corev1.EnvFromSource{
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: optional("envfrom")}}},
		}},
		Volumes: []corev1.Volume{
			{Name: "a", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "vol"}}},
			{Name: "b", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "pvc"}}},
			{Name: "c", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
			{Name: "d", VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: optional("projected")}}}}}},
		},
	}}
}

// withClaim gives a pod the claim of its extended resources.
func withClaim(p *corev1.Pod) *corev1.Pod {
	p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "gpu"}
	return p
}

func podRequestOf(nodeName types.NodeName) *certificatesv1beta1.PodCertificateRequest {
	return &certificatesv1beta1.PodCertificateRequest{ObjectMeta: meta("ns", "r"),
		Spec: certificatesv1beta1.PodCertificateRequestSpec{NodeName: nodeName}}
}

func fixture() *Authorizer {
	a := New(func(r authorizer.Attributes) bool { return r.GetResource() == "services" && r.IsReadOnly() })
	a.PodChanged(nil, newPod("web", "n1"))
	a.PodChanged(nil, newPod("web2", "n1"))
	a.PodChanged(newPod("web2", "n1"), withClaim(newPod("web2", "n1")))
	mirror := newPod("static", "n1")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	mirror.Spec.ImagePullSecrets[0].Name = "stolen"
	a.PodChanged(nil, mirror)
	a.VolumeChanged(nil, &corev1.PersistentVolume{ObjectMeta: meta("", "pv"), Spec: corev1.PersistentVolumeSpec{
		ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "pvc"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			NodeStageSecretRef:         &corev1.SecretReference{Namespace: "storage", Name: "stage"},
			ControllerPublishSecretRef: &corev1.SecretReference{Namespace: "storage", Name: "controller"},
		}},
	}})
	a.PodRequestChanged(nil, podRequestOf("n1"))
	a.AttachmentChanged(nil, &storagev1.VolumeAttachment{ObjectMeta: meta("", "va"),
		Spec: storagev1.VolumeAttachmentSpec{NodeName: "n1"}})
	return a
}

func ask(nodeName, verb, group, resource, sub, namespace, name, selector string) authorizer.AttributesRecord {
	r := authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "system:node:" + nodeName, Groups: []string{user.NodesGroup}}, Verb: verb,
		APIGroup: group, Resource: resource, Subresource: sub, Namespace: namespace, Name: name, ResourceRequest: true,
	}
	if selector != "" {
		r.FieldSelectorRequirements = fields.ParseSelectorOrDie(selector).Requirements()
	}
	return r
}

func TestAuthorize(t *testing.T) {
	const certs, requests = "certificates.k8s.io", "podcertificaterequests"
	for _, tt := range []struct {
		name string
		a    authorizer.AttributesRecord
		want bool
	}{
		{"own pod request", ask("n1", "get", certs, requests, "", "ns", "r", ""), true},
		{"pod request of another node", ask("n2", "get", certs, requests, "", "ns", "r", ""), false},
		{"new pod request", ask("n1", "create", certs, requests, "", "ns", "", ""), true},
		{"own pod requests", ask("n1", "watch", certs, requests, "", "", "", "spec.nodeName=n1"), true},
		{"all pod requests", ask("n1", "list", certs, requests, "", "", "", ""), false},
		{"change a pod request", ask("n1", "update", certs, requests, "", "ns", "r", ""), false},
		{"sign a pod request", ask("n1", "update", certs, requests, "status", "ns", "r", ""), false},
		{"secret of a volume", ask("n1", "get", "", "secrets", "", "ns", "vol", ""), true},
		{"secret of another node's pod", ask("n2", "get", "", "secrets", "", "ns", "vol", ""), false},
		{"watch one secret", ask("n1", "watch", "", "secrets", "", "ns", "vol", ""), true},
		{"list all secrets", ask("n1", "list", "", "secrets", "", "ns", "", ""), false},
		{"write a secret", ask("n1", "update", "", "secrets", "", "ns", "vol", ""), false},
		{"same name elsewhere", ask("n1", "get", "", "secrets", "", "other", "vol", ""), false},
		{"secret of env", ask("n1", "get", "", "secrets", "", "ns", "env", ""), true},
		{"pull secret", ask("n1", "get", "", "secrets", "", "ns", "pull", ""), true},
		{"secret of a mirror pod", ask("n1", "get", "", "secrets", "", "ns", "stolen", ""), false},
		{"secret of a volume's driver", ask("n1", "get", "", "secrets", "", "storage", "stage", ""), true},
		{"secret of the driver's controller", ask("n1", "get", "", "secrets", "", "storage", "controller", ""), false},
		{"config map", ask("n1", "get", "", "configmaps", "", "ns", "envfrom", ""), true},
		{"projected config map", ask("n1", "get", "", "configmaps", "", "ns", "projected", ""), true},
		{"unused config map", ask("n1", "get", "", "configmaps", "", "ns", "other", ""), false},
		{"claim", ask("n1", "get", "", "persistentvolumeclaims", "", "ns", "pvc", ""), true},
		{"ephemeral claim", ask("n1", "get", "", "persistentvolumeclaims", "", "ns", "web-c", ""), true},
		{"claim for extended resources", ask("n1", "get", "resource.k8s.io", "resourceclaims", "", "ns", "gpu", ""),
			true},
		{"that of another node's pod", ask("n2", "get", "resource.k8s.io", "resourceclaims", "", "ns", "gpu", ""),
			false},
		{"claim status", ask("n1", "patch", "", "persistentvolumeclaims", "status", "ns", "pvc", ""), true},
		{"write a claim", ask("n1", "patch", "", "persistentvolumeclaims", "", "ns", "pvc", ""), false},
		{"volume", ask("n1", "get", "", "persistentvolumes", "", "", "pv", ""), true},
		{"volume of another node", ask("n2", "get", "", "persistentvolumes", "", "", "pv", ""), false},
		{"attachment", ask("n1", "get", "storage.k8s.io", "volumeattachments", "", "", "va", ""), true},
		{"attachment of another node", ask("n2", "get", "storage.k8s.io", "volumeattachments", "", "", "va", ""),
			false},
		{"token", ask("n1", "create", "", "serviceaccounts", "token", "ns", "sa", ""), true},
		{"token of another account", ask("n1", "create", "", "serviceaccounts", "token", "ns", "sa2", ""), false},
		{"create accounts", ask("n1", "create", "", "serviceaccounts", "", "ns", "sa", ""), false},
		{"own lease", ask("n1", "update", "coordination.k8s.io", "leases", "", "kube-node-lease", "n1", ""), true},
		{"other lease", ask("n1", "update", "coordination.k8s.io", "leases", "", "kube-node-lease", "n2", ""), false},
		{"lease elsewhere", ask("n1", "update", "coordination.k8s.io", "leases", "", "kube-system", "n1", ""), false},
		{"list leases", ask("n1", "list", "coordination.k8s.io", "leases", "", "kube-node-lease", "n1", ""), false},
		{"own CSINode", ask("n1", "patch", "storage.k8s.io", "csinodes", "", "", "n1", ""), true},
		{"other CSINode", ask("n1", "patch", "storage.k8s.io", "csinodes", "", "", "n2", ""), false},
		{"own node", ask("n1", "get", "", "nodes", "", "", "n1", ""), true},
		{"other node", ask("n1", "get", "", "nodes", "", "", "n2", ""), false},
		{"all nodes", ask("n1", "list", "", "nodes", "", "", "", ""), false},
		{"watch own node", ask("n1", "watch", "", "nodes", "", "", "n1", "metadata.name=n1"), true},
		{"watch own pod", ask("n1", "watch", "", "pods", "", "ns", "web", "metadata.name=web"), true},
		{"watch another's pod", ask("n2", "watch", "", "pods", "", "ns", "web", "metadata.name=web"), false},
		{"read claim status", ask("n1", "get", "", "persistentvolumeclaims", "status", "ns", "pvc", ""), false},
		{"node status", ask("n1", "patch", "", "nodes", "status", "", "n1", ""), true},
		{"delete node", ask("n1", "delete", "", "nodes", "", "", "n1", ""), false},
		{"own pods", ask("n1", "list", "", "pods", "", "", "", "spec.nodeName=n1"), true},
		{"others' pods", ask("n1", "list", "", "pods", "", "", "", "spec.nodeName=n2"), false},
		{"all but others' pods", ask("n1", "list", "", "pods", "", "", "", "spec.nodeName!=n2"), false},
		{"all pods", ask("n1", "watch", "", "pods", "", "", "", ""), false},
		{"own pod", ask("n1", "get", "", "pods", "", "ns", "web", ""), true},
		{"own mirror pod", ask("n1", "get", "", "pods", "", "ns", "static", ""), true},
		{"other's pod", ask("n2", "get", "", "pods", "", "ns", "web", ""), false},
		{"pod status", ask("n1", "patch", "", "pods", "status", "ns", "web", ""), true},
		{"evict", ask("n1", "create", "", "pods", "eviction", "ns", "web", ""), true},
		{"exec", ask("n1", "create", "", "pods", "exec", "ns", "web", ""), false},
		{"by the rules", ask("n1", "list", "", "services", "", "", "", ""), true},
		{"beyond the rules", ask("n1", "create", "", "services", "", "ns", "", ""), false},
		{"no name", ask("", "get", "", "nodes", "", "", "", ""), false},
		{"not of the group", authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "system:node:n1"}, Verb: "get",
			Resource: "nodes", Name: "n1", ResourceRequest: true}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			decision, reason, err := fixture().Authorize(context.Background(), tt.a)
			if err != nil || (decision == authorizer.DecisionAllow) != tt.want || decision == authorizer.DecisionDeny {
				t.Errorf("decision %v, reason %q, error %v", decision, reason, err)
			}
		})
	}
}

func TestGraphFollows(t *testing.T) {
	a := fixture()
	vol := ref{secret, "ns", "vol"}
	a.PodChanged(newPod("web", "n1"), nil)
	if !a.graph.reaches("n1", vol) {
		t.Error("the second pod still needs the secret")
	}
	a.PodChanged(newPod("web2", "n1"), nil)
	if a.graph.reaches("n1", vol) || a.graph.reaches("n1", ref{kind: volume, name: "pv"}) {
		t.Error("no pod needs the secret any more")
	}
	waiting := newPod("later", "")
	a.PodChanged(nil, waiting)
	if a.graph.reaches("", vol) {
		t.Error("a pod without node needs nothing")
	}
	a.PodChanged(waiting, newPod("later", "n2"))
	if !a.graph.reaches("n2", vol) || !a.graph.reaches("n2", ref{secret, "storage", "stage"}) {
		t.Error("the bound pod needs its secrets")
	}
	a.VolumeChanged(&corev1.PersistentVolume{ObjectMeta: meta("", "pv")}, nil)
	if a.graph.reaches("n2", ref{secret, "storage", "stage"}) || len(a.graph.bound) != 0 {
		t.Error("the volume is gone, its secret not")
	}
	a.PodChanged(newPod("later", "n2"), nil)
	static := newPod("static", "n1")
	a.PodChanged(static, nil)
	va := &storagev1.VolumeAttachment{ObjectMeta: meta("", "va"), Spec: storagev1.VolumeAttachmentSpec{NodeName: "n1"}}
	a.AttachmentChanged(va, nil)
	a.PodRequestChanged(podRequestOf("n1"), nil)
	if len(a.graph.needs) != 0 || len(a.graph.pods) != 0 {
		t.Errorf("left behind: %v %v", a.graph.needs, a.graph.pods)
	}
}
