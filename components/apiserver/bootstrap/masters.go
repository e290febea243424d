package bootstrap

import (
	"context"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/apiserver/serverlease"
	"quintet.dev/quintet/components/apiserver/storage"
)

// masterLife is how long the address of a server that no longer renews stays among the endpoints.
const masterLife = 15 * time.Second

// Masters are the addresses of the servers that are alive.
type Masters struct {
	Store  storage.Store
	Prefix string // of all keys of the store, "/registry"
}

func (m *Masters) servers() *serverlease.Servers {
	return &serverlease.Servers{Store: m.Store, Root: serverlease.Root(m.Prefix, "masterleases"), Life: masterLife}
}

// renew lets an address live for masterLife from now.
func (m *Masters) renew(ctx context.Context, ip net.IP) error {
	return m.servers().Renew(ctx, ip.String(), func(lease *corev1.Endpoints) {
		lease.Subsets = []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: ip.String()}}}}
	})
}

// list returns the addresses that live, in the order of their keys.
func (m *Masters) list(ctx context.Context) ([]net.IP, error) {
	leases, err := m.servers().List(ctx)
	if err != nil {
		return nil, err
	}
	var out []net.IP
	for _, lease := range leases {
		if len(lease.Subsets) == 0 || len(lease.Subsets[0].Addresses) == 0 {
			continue
		}
		if ip := net.ParseIP(lease.Subsets[0].Addresses[0].IP); ip != nil {
			out = append(out, ip)
		}
	}
	return out, nil
}

// remove ends the life of an address now.
func (m *Masters) remove(ctx context.Context, ip net.IP) error {
	return m.servers().Remove(ctx, ip.String())
}
