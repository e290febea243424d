package apiserver

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/components/apiserver/inprocess"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/objects/informers"
)

// self is the server as its own parts see it, as far as they are libraries that want a client and informers.
type self struct {
	// client asks as system:apiserver, of whom nothing is withheld.
	client *inprocess.Transport
	// informers are of the kinds of the program. Who asks for one calls StartWithContext, too, with a context of Run.
	informers *informers.Factory
}

func (s *Server) makeSelf() {
	table := make([]*kinds.Kind, len(s.table))
	for i, r := range s.table {
		table[i] = r.Kind
	}
	s.self = self{
		client: &inprocess.Transport{User: &user.DefaultInfo{
			Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated},
		}},
		informers: informers.New(s.local, table),
	}
}

// Client is how others in this process reach the server: without a connection, as system:apiserver, of whom nothing is
// withheld.
func (s *Server) Client() *rest.Config { return s.self.client.Config() }

// run returns when the informers have ended, which ctx ends.
func (s *self) run(ctx context.Context) error {
	<-ctx.Done()
	s.informers.Shutdown()
	return nil
}
