package join

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"
)

// Reasons why a ConfigMap cluster-info is not trusted. The first may pass, the other two do not.
var (
	// ErrNotSigned: no signature by the token; it is new, unknown or expired, or may not sign.
	ErrNotSigned = errors.New("cluster-info is not signed by the token")
	// ErrSignature: the signature is of another secret, or the content was changed.
	ErrSignature = errors.New("cluster-info is signed with another secret")
	// ErrAuthority: the authority is not the one that was pinned.
	ErrAuthority = errors.New("wrong authority")
)

// ClusterInfo is the ConfigMap by which nodes learn the cluster's authority, without its signatures: the controller
// bootstrap-signer adds them (https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/).
func ClusterInfo(server string, authority []byte) (*corev1.ConfigMap, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[""] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority}
	content, err := clientcmd.Write(*config)
	if err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: api.ConfigMapClusterInfo},
		Data:       map[string]string{api.KubeConfigKey: string(content)},
	}, nil
}

// SignedBy tells whether the ConfigMap has the signature of a token.
func SignedBy(info *corev1.ConfigMap, t Token) bool {
	content := info.Data[api.KubeConfigKey]
	return content != "" && jws.DetachedTokenIsValid(info.Data[api.JWSSignatureKeyPrefix+t.ID], content, t.ID, t.Secret)
}

// TrustedAuthority is the authority that a ConfigMap cluster-info names, in PEM, if the token has signed it and if its
// key has one of the pins; without pins, the signature is enough. Other than of ErrNotSigned, ErrSignature and
// ErrAuthority, an error is one of a malformed content.
func TrustedAuthority(info *corev1.ConfigMap, t Token, pins []string) ([]byte, error) {
	content := info.Data[api.KubeConfigKey]
	signature, signed := info.Data[api.JWSSignatureKeyPrefix+t.ID]
	switch {
	case content == "":
		return nil, fmt.Errorf("the ConfigMap %s/%s has no %s", info.Namespace, info.Name, api.KubeConfigKey)
	case !signed:
		return nil, fmt.Errorf("%w %s: it is unknown, has expired, or may not be used for signing; "+
			"`quintet join-command` makes a new one", ErrNotSigned, t.ID)
	case !jws.DetachedTokenIsValid(signature, content, t.ID, t.Secret):
		return nil, fmt.Errorf("%w than that of the token %s: its second part is wrong, or the answer was changed on "+
			"its way", ErrSignature, t.ID)
	}
	config, err := clientcmd.Load([]byte(content))
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: %w", info.Namespace, info.Name, err)
	}
	cluster := config.Clusters[""]
	if cluster == nil && len(config.Clusters) == 1 {
		for _, cluster = range config.Clusters {
		}
	}
	if cluster == nil {
		return nil, fmt.Errorf("the kubeconfig in ConfigMap %s/%s has no cluster", info.Namespace, info.Name)
	}
	authority := cluster.CertificateAuthorityData
	if len(pins) == 0 {
		_, err := parseCertificates(authority)
		return authority, err
	}
	if err := checkPins(authority, pins); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAuthority, err)
	}
	return authority, nil
}
