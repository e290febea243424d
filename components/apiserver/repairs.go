package apiserver

import (
	"context"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"quintet.dev/quintet/components/apiserver/services"
)

// repairServices keeps what services use in order, and tells in events, as upstream's controllers do, what wasn't.
func (s *Server) repairServices(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.self.client.Config())
	if err != nil {
		return err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	return s.services.Run(ctx, services.Events{
		Addresses: broadcaster.NewRecorder(scheme.Scheme, "ipallocator-repair-controller"),
		Ports:     broadcaster.NewRecorder(scheme.Scheme, "portallocator-repair-controller"),
	})
}
