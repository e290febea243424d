package nodettl

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"quintet.dev/quintet/components/controllers/runner"
)

// Controller keeps the annotation.
type Controller struct {
	env   runner.Env
	nodes corelisters.NodeLister
	loop  *runner.Loop[string]

	mu      sync.Mutex
	count   int // nodes
	current int // step
}

// New makes the controller; it starts working with Run.
func New(env runner.Env) (*Controller, error) {
	nodes := env.Informers.Core().V1().Nodes()
	c := &Controller{env: env, nodes: nodes.Lister()}
	c.loop = runner.NewLoop("ttlcontroller", env, c.reconcile)
	return c, c.loop.Watch(nodes.Informer(), runner.Handle(func(old, new *v1.Node) {
		c.counted(old, new)
		if new != nil { // the others learn of a new size when they change themselves
			c.loop.Add(new.Name)
		}
	}))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// counted takes in that a node came or went.
func (c *Controller) counted(old, new *v1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case old == nil && new != nil:
		c.count++
	case old != nil && new == nil:
		c.count--
	}
}

func (c *Controller) seconds() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = next(c.current, c.count)
	return steps[c.current].seconds
}

func (c *Controller) reconcile(ctx context.Context, name string) error {
	node, err := c.nodes.Get(name)
	if err != nil {
		return runner.IgnoreGone(err)
	}
	wanted := strconv.Itoa(c.seconds())
	if node.Annotations[v1.ObjectTTLAnnotationKey] == wanted {
		return nil
	}
	patch,
		err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{v1.ObjectTTLAnnotationKey: wanted}}})
	if err != nil {
		return err
	}
	_, err = c.env.Client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err = runner.IgnoreGone(err); err != nil {
		return fmt.Errorf("annotation of node %s: %w", name, err)
	}
	return nil
}
