package join

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/internal/join"
	"quintet.dev/quintet/internal/kubeconfig"
)

const (
	// serviceTokenLife is as long as certificates of a node are usually valid. The token ends with the Node object.
	serviceTokenLife = 365 * 24 * time.Hour
	// approvalNotice is after how long without a client certificate the node says what it waits for.
	approvalNotice = 20 * time.Second
)

// Enrol gets tokens for the services of the node that have none, once the kubelet has registered the node, and has
// start run them. Then the node has no use for its bootstrap token, and forgets it. It retries until ctx ends, except
// where the token is not taken any more.
func (n *Node) Enrol(ctx context.Context, start func() error) {
	missing := n.withoutToken()
	go n.remindOfApproval(ctx)
	last := ""
	for {
		err := n.enrol(ctx, missing)
		if err == nil {
			if err = start(); err != nil {
				n.say("services of the node: %v", err)
			}
			n.forget()
			return
		}
		if ctx.Err() == nil && err.Error() != last && !errors.Is(err, errNotRegistered) {
			last = err.Error()
			n.say("%s", last)
		}
		if apierrors.IsUnauthorized(err) {
			n.say("the node has no %v: remove its container, and join again with a new token", missing)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryAfter):
		}
	}
}

// withoutToken are the services that have no kubeconfig.
func (n *Node) withoutToken() []string {
	var missing []string
	for _, service := range n.config.Services {
		if _, err := os.Stat(n.path(service + ".conf")); err != nil {
			missing = append(missing, service)
		}
	}
	return missing
}

var errNotRegistered = errors.New("the node is not registered yet")

// enrol writes a kubeconfig for each service.
func (n *Node) enrol(ctx context.Context, services []string) error {
	if _, err := os.Stat(n.path(join.KubeletConf)); err != nil {
		return errNotRegistered // and a node of that name is another
	}
	if len(services) == 0 {
		return nil
	}
	api, err := newClient(n.options.Server, n.authority, n.options.Token.String())
	if err != nil {
		return err
	}
	var node corev1.Node
	if err := api.get(ctx, nodesPath+n.options.Name, &node); apierrors.IsNotFound(err) {
		return errNotRegistered
	} else if err != nil {
		return n.explain("look for the node", err)
	}
	for _, service := range services {
		content, err := n.serviceKubeconfig(ctx, api, service, &node)
		if err != nil {
			return n.explain("get a token for "+service, err)
		}
		if err := n.write(service+".conf", content); err != nil {
			return err
		}
	}
	return nil
}

// serviceKubeconfig gets a token of the service's account that is valid as long as the node exists
// (https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#bound-service-account-tokens).
func (n *Node) serviceKubeconfig(ctx context.Context, api *client, service string, node *corev1.Node) ([]byte, error) {
	life := int64(serviceTokenLife.Seconds())
	request := &authenticationv1.TokenRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"},
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &life,
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name,
				UID: node.UID}},
	}
	path := fmt.Sprintf("/api/v1/namespaces/kube-system/serviceaccounts/%s/token", service)
	if err := api.create(ctx, path, request); err != nil {
		return nil, err
	}
	return kubeconfig.Encode("cluster", "https://"+n.options.Server, n.authority,
		kubeconfig.Identity{User: service, Token: request.Status.Token})
}

// forget removes the bootstrap token from the node's files.
func (n *Node) forget() {
	if err := os.Remove(n.path(join.BootstrapConf)); err != nil && !errors.Is(err, os.ErrNotExist) {
		n.say("%v", err)
	}
}

// remindOfApproval tells of a signing request that waits.
func (n *Node) remindOfApproval(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(approvalNotice):
	}
	if _, err := os.Stat(n.path(join.KubeletConf)); errors.Is(err, os.ErrNotExist) && ctx.Err() == nil {
		n.say("still without a client certificate: is the signing request of this node approved (quintet kubectl " +
			"get csr), and does the controller manager run?")
	}
}
