package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/apiserver/serial"
	"quintet.dev/quintet/components/apiserver/storage"
)

// masterLife is how long the address of a server that no longer renews stays among the endpoints.
const masterLife = 15 * time.Second

// Masters are the addresses of the servers that are alive, as keys of the store that end on their own: upstream's, so that its
// servers and these know of each other.
type Masters struct {
	Store  storage.Store
	Prefix string // of all keys of the store, "/registry"
}

func (m *Masters) prefix() string { return strings.TrimSuffix(m.Prefix, "/") + "/masterleases/" }

// tries bounds how often a renewal that another write came before is tried again.
const tries = 5

// renew lets an address live for masterLife from now.
func (m *Masters) renew(ctx context.Context, ip net.IP) error {
	key := m.prefix() + ip.String()
	current, err := m.Store.Get(ctx, key)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	for range tries {
		err = m.put(ctx, key, ip, current)
		var conflict *storage.ConflictError
		switch {
		case errors.As(err, &conflict):
			current = conflict.Current
		case errors.Is(err, storage.ErrExists):
			if current, err = m.Store.Get(ctx, key); err != nil && !errors.Is(err, storage.ErrNotFound) {
				return err
			}
		default:
			return err
		}
	}
	return fmt.Errorf("the lease of %s is written by somebody else all the time: %w", ip, err)
}

func (m *Masters) put(ctx context.Context, key string, ip net.IP, current storage.KeyValue) error {
	lease := &corev1.Endpoints{Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: ip.String()}}}}}
	if former, err := openMaster(current.Value); err == nil {
		lease.ObjectMeta = former.ObjectMeta
	}
	lease.Generation++
	body, err := lease.Marshal()
	if err != nil {
		return err
	}
	value := serial.AppendEnvelope(nil, corev1.SchemeGroupVersion.WithKind("Endpoints"), body)
	if current.Revision == 0 {
		_, err = m.Store.Create(ctx, key, value, masterLife)
	} else {
		_, err = m.Store.Update(ctx, key, value, current.Revision, masterLife)
	}
	return err
}

func openMaster(value []byte) (*corev1.Endpoints, error) {
	lease := &corev1.Endpoints{}
	if !serial.IsEnvelope(value) {
		return lease, json.Unmarshal(value, lease)
	}
	_, body, err := serial.OpenEnvelope(value)
	if err != nil {
		return nil, err
	}
	return lease, lease.Unmarshal(body)
}

// list returns the addresses that live, in the order of their keys.
func (m *Masters) list(ctx context.Context) ([]net.IP, error) {
	page, err := m.Store.List(ctx, storage.Range{Prefix: m.prefix()})
	if err != nil {
		return nil, err
	}
	var out []net.IP
	for _, item := range page.Items {
		lease, err := openMaster(item.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", item.Key, err)
		}
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
	key := m.prefix() + ip.String()
	current, err := m.Store.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	for i := 0; err == nil && i < tries; i++ {
		var conflict *storage.ConflictError
		if _, err = m.Store.Delete(ctx, key, current.Revision); !errors.As(err, &conflict) {
			return err
		}
		if current, err = conflict.Current, nil; current.Revision == 0 {
			return nil
		}
	}
	return err
}
