package join

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quintet.dev/quintet/internal/join"
)

// discover finds the cluster's authority. The connection is to any server that answers: the answer is trusted for its
// signature by the token, and for the hash of the authority, and all later requests for that authority.
func (n *Node) discover(ctx context.Context) error {
	api, err := newClient(n.options.Server, nil, "")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, n.options.Timeout)
	defer cancel()
	last := ""
	for {
		err := n.askOnce(ctx, api)
		if err == nil || errors.Is(err, join.ErrSignature) || errors.Is(err, join.ErrAuthority) {
			return err
		}
		if ctx.Err() == nil && err.Error() != last {
			last = err.Error()
			n.say("%s; trying for %v", last, n.options.Timeout)
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return fmt.Errorf("gave up after %v: %s", n.options.Timeout, last)
		case <-time.After(retryAfter):
		}
	}
}

// askOnce asks for cluster-info, and keeps the authority that can be trusted.
func (n *Node) askOnce(ctx context.Context, api *client) error {
	var info corev1.ConfigMap
	err := api.get(ctx, clusterInfoPath, &info)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsNotFound(err):
		return fmt.Errorf("the cluster of %s has no ConfigMap kube-public/cluster-info that may be read without "+
			"credentials; `quintet token create` makes it: %w", n.options.Server, err)
	case err != nil:
		return fmt.Errorf("the API server at %s does not answer (is the address right, and is the container on a "+
			"network that reaches it?): %w", n.options.Server, err)
	}
	n.authority, err = join.TrustedAuthority(&info, n.options.Token, n.options.Pins)
	return err
}
