package handlers

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
)

// connected serves a subresource that takes over the connection. Whatever the HTTP method, RBAC has seen it as a verb of
// that subresource; admission sees it as CONNECT.
func (c *call) connected() error {
	if c.namespace == "" && c.kind.Namespaced {
		return generic(http.StatusMethodNotAllowed)
	}
	a := attributes{operation: admission.Connect, options: &metav1.CreateOptions{}}
	if err := c.mutate(a, nil, nil); err != nil {
		return err
	}
	if err := c.validate(c.ctx, a, nil, nil); err != nil {
		return err
	}
	return c.connect(c.w, c.r, c.namespace, c.name)
}
