package apiserver

import (
	"context"
	"errors"
	"net"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/aggregation"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/components/apiserver/options"
)

// unfed is a store that tells of no changes.
type unfed struct {
	objects.Store
	err error
}

func (u unfed) Feed(context.Context, schema.GroupResource, func(old, new api.Object), func()) error {
	return u.err
}

// TestFailedPartEndsTheServer: a server that has become ready does not go on without one of its parts, and says what
// failed.
func TestFailedPartEndsTheServer(t *testing.T) {
	s, err := New(options.Config{Storage: options.StorageMemory, BindAddress: net.IPv4(127, 0, 0, 1),
		AuthorizationModes: []string{"RBAC"}})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("no feed")
	s.catalog.aggregator, err = aggregation.New(aggregation.Config{
		Objects: unfed{s.registry.Local, broken}, Services: newServiceResolver(s.base, s.registry),
		Clock: s.config.Clock, Changed: func(aggregation.View) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("Run: %v", err)
	}
}
