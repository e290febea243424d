package dynamic

import (
	"sync"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/openapi"
)

// client tells when the catalogue of schemas was first read. Policies that change objects read it in the background,
// and until they have, they fail for want of a schema.
type client struct {
	kubernetes.Interface
	read chan struct{} // nil if the catalogue was not requested
}

func (c *client) Discovery() discovery.DiscoveryInterface {
	return described{c.Interface.Discovery(), c}
}

type described struct {
	discovery.DiscoveryInterface
	client *client
}

func (d described) OpenAPIV3() openapi.Client {
	read := make(chan struct{})
	d.client.read = read
	return &catalogue{Client: d.DiscoveryInterface.OpenAPIV3(), done: sync.OnceFunc(func() { close(read) })}
}

type catalogue struct {
	openapi.Client
	done func()
}

func (c *catalogue) Paths() (map[string]openapi.GroupVersion, error) {
	defer c.done()
	return c.Client.Paths()
}
