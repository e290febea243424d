package noderestriction

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name + "-uid")}
}

func mirror(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta("ns", "static"), Spec: corev1.PodSpec{NodeName: "n1"}}
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
	p.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "n1-uid", Controller: ptr.To(true)}}
	if change != nil {
		change(p)
	}
	return p
}

func onNode(name, nodeName string, labels map[string]string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta("ns", name), Spec: corev1.PodSpec{NodeName: nodeName, Volumes: []corev1.Volume{{
		VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "vault", Audience: "vault"}}}}}}}}}
	p.Labels = labels
	return p
}

func newNode(name string, labels map[string]string, taints ...corev1.Taint) *corev1.Node {
	n := &corev1.Node{ObjectMeta: meta("", name), Spec: corev1.NodeSpec{Taints: taints}}
	n.Labels = labels
	return n
}

func tokenFor(pod, uid string, audiences ...string) *authenticationv1.TokenRequest {
	return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod,
			UID: types.UID(uid)}}}
}

func csr(t *testing.T, signer, name string) *certificatesv1.CertificateSigningRequest {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer,
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}}
}

// TestAnyName: the name in a request for a certificate is not looked at where any will do.
func TestAnyName(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		p := New(Config{Objects: &objectstest.Store{}, AnyName: allowed})
		obj := csr(t, certificatesv1.KubeletServingSignerName, "system:node:n2")
		resource := certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")
		a := admission.NewAttributesRecord(obj, nil,
			certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), "", "c", resource, "",
			admission.Create, nil, false,
			&user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}})
		if err := p.Admit(t.Context(), a, nil); (err == nil) != allowed {
			t.Errorf("any name %v: %v", allowed, err)
		}
	}
}

func TestAdmit(t *testing.T) {
	store := &objectstest.Store{}
	store.Put(corev1.Resource("nodes"), newNode("n1", nil))
	store.Put(corev1.Resource("pods"), onNode("mine", "n1", nil))
	store.Put(corev1.Resource("pods"), onNode("other", "n2", nil))
	nobody := authorizer.AuthorizerFunc(
		func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if a.GetVerb() == "request-serviceaccounts-token-audience" && a.GetResource() == "granted" &&
				a.GetName() == "sa" {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		})
	p := New(Config{Objects: store, Authorizer: nobody})
	taint := corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoSchedule}
	owned := newNode("n1", nil)
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "X"}}
	configured := newNode("n1", nil)
	//lint:ignore SA1019 a node may not set it
	configured.Spec.ConfigSource = &corev1.NodeConfigSource{}
	lease := func(name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: meta("kube-node-lease", name)}
	}
	claim := func(volume string, phase corev1.PersistentVolumeClaimPhase,
		condition string) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: meta("ns", "pvc"),
			Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume}}
		c.Status.Phase = phase
		c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
			{Type: corev1.PersistentVolumeClaimConditionType(condition)}}
		return c
	}
	const create, update, del = admission.Create, admission.Update, admission.Delete
	for _, tt := range []struct {
		name      string
		op        admission.Operation
		resource  string
		sub       string
		namespace string
		object    string
		obj, old  runtime.Object
		want      bool
	}{
		{"mirror pod", create, "pods", "", "ns", "static", mirror(nil), nil, true},
		{"ordinary pod", create, "pods", "", "ns", "p", onNode("p", "n1", nil), nil, false},
		{"mirror pod elsewhere", create, "pods", "", "ns", "static",
			mirror(func(p *corev1.Pod) { p.Spec.NodeName = "n2" }), nil, false},
		{"mirror pod without owner", create, "pods", "", "ns", "static",
			mirror(func(p *corev1.Pod) { p.OwnerReferences = nil }), nil, false},
		{"mirror pod of another node", create, "pods", "", "ns", "static",
			mirror(func(p *corev1.Pod) { p.OwnerReferences[0].Name = "n2" }), nil, false},
		{"mirror pod of an older node", create, "pods", "", "ns", "static",
			mirror(func(p *corev1.Pod) { p.OwnerReferences[0].UID = "x" }), nil, false},
		{"mirror pod, not controller", create, "pods", "", "ns", "static",
			mirror(func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }), nil, false},
		{"mirror pod that blocks", create, "pods", "", "ns", "static",
			mirror(func(p *corev1.Pod) { p.OwnerReferences[0].BlockOwnerDeletion = ptr.To(true) }), nil, false},
		{"mirror pod with account", create, "pods", "", "ns", "static",
			mirror(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "sa" }), nil, false},
		{"mirror pod with secret", create, "pods", "", "ns", "static", mirror(func(p *corev1.Pod) {
			p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}}
		}), nil, false},
		{"mirror pod with token", create, "pods", "", "ns", "static",
			mirror(func(p *corev1.Pod) { p.Spec.Volumes = onNode("", "", nil).Spec.Volumes }), nil, false},
		{"update pod", update, "pods", "", "ns", "mine", onNode("mine", "n1", nil), onNode("mine", "n1", nil), false},
		{"delete own pod", del, "pods", "", "ns", "mine", nil, nil, true},
		{"delete another's pod", del, "pods", "", "ns", "other", nil, nil, false},
		{"own pod's status", update, "pods", "status", "ns", "mine", onNode("mine", "n1", nil),
			onNode("mine", "n1", nil), true},
		{"own pod's labels by status", update, "pods", "status", "ns", "mine",
			onNode("mine", "n1", map[string]string{"a": "b"}), onNode("mine", "n1", nil), false},
		{"another's pod's status", update, "pods", "status", "ns", "other", onNode("other", "n1", nil),
			onNode("other", "n2", nil), false},
		{"evict own pod", create, "pods", "eviction", "ns", "mine", &policyv1.Eviction{ObjectMeta: meta("ns", "mine")},
			nil, true},
		{"evict another's pod", create, "pods", "eviction", "ns", "other",
			&policyv1.Eviction{ObjectMeta: meta("ns", "other")}, nil, false},
		{"exec", create, "pods", "exec", "ns", "mine", &corev1.PodExecOptions{}, nil, false},
		{"own node", create, "nodes", "", "", "n1",
			newNode("n1", map[string]string{"kubernetes.io/hostname": "n1", "topology.kubernetes.io/zone": "z",
				"example.com/x": "y"}, taint), nil, true},
		{"other node", create, "nodes", "", "", "n2", newNode("n2", nil), nil, false},
		{"own node, restricted label", create, "nodes", "", "", "n1",
			newNode("n1", map[string]string{"node-restriction.kubernetes.io/x": "y"}), nil, false},
		{"own node, subdomain of restricted", create, "nodes", "", "", "n1",
			newNode("n1", map[string]string{"a.node-restriction.kubernetes.io/x": "y"}), nil, false},
		{"own node, role label", create, "nodes", "", "", "n1",
			newNode("n1", map[string]string{"node-role.kubernetes.io/control-plane": ""}), nil, false},
		{"own node, kubelet's label", create, "nodes", "", "", "n1",
			newNode("n1", map[string]string{"foo.kubelet.kubernetes.io/x": ""}), nil, true},
		{"own labels", update, "nodes", "", "", "n1", newNode("n1", map[string]string{"a": "b"}), newNode("n1", nil),
			true},
		{"remove a restricted label", update, "nodes", "", "", "n1", newNode("n1", nil),
			newNode("n1", map[string]string{"node-restriction.kubernetes.io/x": "y"}), false},
		{"keep a restricted label", update, "nodes", "", "", "n1",
			newNode("n1", map[string]string{"node-restriction.kubernetes.io/x": "y"}),
			newNode("n1", map[string]string{"node-restriction.kubernetes.io/x": "y"}), true},
		{"own taints", update, "nodes", "", "", "n1", newNode("n1", nil), newNode("n1", nil, taint), false},
		{"own owners", update, "nodes", "", "", "n1", owned, newNode("n1", nil), false},
		{"own status", update, "nodes", "status", "", "n1", newNode("n1", nil), newNode("n1", nil), true},
		{"other's status", update, "nodes", "status", "", "n2", newNode("n2", nil), newNode("n2", nil), false},
		{"claim's condition", update, "persistentvolumeclaims", "status", "ns", "pvc", claim("v", "Bound", "Resizing"),
			claim("v", "Bound", ""), true},
		{"claim's phase", update, "persistentvolumeclaims", "status", "ns", "pvc", claim("v", "Lost", ""),
			claim("v", "Bound", ""), false},
		{"claim", update, "persistentvolumeclaims", "", "ns", "pvc", claim("v", "Bound", ""), claim("v", "Bound", ""),
			false},
		{"token of own pod", create, "serviceaccounts", "token", "ns", "sa", tokenFor("mine", "mine-uid"), nil, true},
		{"token, its audience", create, "serviceaccounts", "token", "ns", "sa", tokenFor("mine", "mine-uid", "vault"),
			nil, true},
		{"token, other audience", create, "serviceaccounts", "token", "ns", "sa", tokenFor("mine", "mine-uid", "bank"),
			nil, false},
		{"token, granted audience", create, "serviceaccounts", "token", "ns", "sa",
			tokenFor("mine", "mine-uid", "granted"), nil, true},
		{"token, two audiences", create, "serviceaccounts", "token", "ns", "sa",
			tokenFor("mine", "mine-uid", "vault", ""), nil, false},
		{"token of another's pod", create, "serviceaccounts", "token", "ns", "sa", tokenFor("other", "other-uid"), nil,
			false},
		{"token without uid", create, "serviceaccounts", "token", "ns", "sa", tokenFor("mine", ""), nil, false},
		{"token of no pod", create, "serviceaccounts", "token", "ns", "sa", &authenticationv1.TokenRequest{}, nil,
			false},
		{"own lease", create, "leases", "", "kube-node-lease", "", lease("n1"), nil, true},
		{"other lease", create, "leases", "", "kube-node-lease", "", lease("n2"), nil, false},
		{"lease elsewhere", update, "leases", "", "ns", "n1", lease("n1"), lease("n1"), false},
		{"own certificate", create, "certificatesigningrequests", "", "", "",
			csr(t, certificatesv1.KubeletServingSignerName, "system:node:n1"), nil, true},
		{"other's certificate", create, "certificatesigningrequests", "", "", "",
			csr(t, certificatesv1.KubeletServingSignerName, "system:node:n2"), nil, false},
		{"other signer", create, "certificatesigningrequests", "", "", "", csr(t, "example.com/x", "whoever"), nil,
			true},
		{"own config source", update, "nodes", "", "", "n1", configured, newNode("n1", nil), false},
		{"own config source, as it was", update, "nodes", "", "", "n1", configured, configured, true},
		{"token of an older pod", create, "serviceaccounts", "token", "ns", "sa", tokenFor("mine", "x"), nil, false},
		{"anything else", create, "events", "", "ns", "", &corev1.Event{}, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			groups := map[string]string{"leases": "coordination.k8s.io",
				"certificatesigningrequests": "certificates.k8s.io"}
			resource := schema.GroupVersionResource{Group: groups[tt.resource], Version: "v1", Resource: tt.resource}
			for _, u := range []struct {
				info user.DefaultInfo
				want bool
			}{
				{user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup}}, tt.want},
				{user.DefaultInfo{Name: "system:node:", Groups: []string{user.NodesGroup}}, false},
				{user.DefaultInfo{Name: "jane"}, true},
			} {
				a := admission.NewAttributesRecord(tt.obj, tt.old, schema.GroupVersionKind{}, tt.namespace, tt.object,
					resource, tt.sub, tt.op, nil, false, &u.info)
				err := p.Admit(context.Background(), a, nil)
				if (err == nil) != u.want {
					t.Errorf("%s: %v", u.info.Name, err)
				}
				if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsConflict(err) &&
					!apierrors.IsNotFound(err) {
					t.Errorf("%s: not a status error: %v", u.info.Name, err)
				}
			}
		})
	}
}

// TestTexts: nodes' authors know these.
func TestTexts(t *testing.T) {
	store := &objectstest.Store{}
	store.Put(corev1.Resource("nodes"), newNode("n1", nil))
	broken := onNode("mine", "n1", nil)
	broken.Spec.Volumes = append(
		[]corev1.Volume{{VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "none"}}}},
		broken.Spec.Volumes...)
	store.Put(corev1.Resource("pods"), broken)
	plain := onNode("plain", "n1", nil)
	plain.Spec.Volumes = nil
	store.Put(corev1.Resource("pods"), plain)
	p := New(Config{Objects: store,
		Authorizer: authorizer.AuthorizerFunc(
			func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
				return authorizer.DecisionNoOpinion, "", nil
			})})
	for _, c := range []struct {
		resource, sub, name string
		obj                 runtime.Object
		want                string
	}{
		// whatever is wrong with another volume
		{"serviceaccounts", "token", "sa", tokenFor("mine", "mine-uid", "vault"), ""},
		{"serviceaccounts", "token", "sa", tokenFor("mine", "mine-uid", "bank"),
			`serviceaccounts "sa" is forbidden: error validating audience "bank": csidriver.storage.k8s.io "none" not found`},
		{"serviceaccounts", "token", "sa", tokenFor("plain", "plain-uid", "bank"),
			`serviceaccounts "sa" is forbidden: audience "bank" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience`},
		{"serviceaccounts", "token", "sa", tokenFor("gone", "x"), `pod "gone" not found`},
		{"pods", "", "static", mirror(func(p *corev1.Pod) { p.OwnerReferences = nil }),
			`pods "static" is forbidden: node "n1" can only create pods with an owner reference set to itself`},
		{"pods", "", "static", mirror(func(p *corev1.Pod) { p.OwnerReferences[0].UID = "x" }),
			`pods "static" is forbidden: node n1 UID mismatch: expected x got n1-uid`},
	} {
		err := p.Admit(context.Background(),
			admission.NewAttributesRecord(c.obj, nil, schema.GroupVersionKind{}, "ns", c.name,
				corev1.SchemeGroupVersion.WithResource(c.resource), c.sub, admission.Create, nil, false,
				&user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup}}), nil)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
