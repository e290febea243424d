package apiserver

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"

	"quintet.dev/quintet/components/apiserver/bootstrap"
	"quintet.dev/quintet/components/apiserver/services"
)

// keepBootstrap keeps what the server began with, and tells in events of what it can't.
func (s *Server) keepBootstrap(ctx context.Context) error {
	client, err := typedcore.NewForConfig(s.self.client.Config())
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: client.Events("")})
	return s.bootstrap.Run(ctx, broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: bootstrap.ServiceCIDRManager}))
}

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
