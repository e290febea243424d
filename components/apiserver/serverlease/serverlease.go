// Package serverlease keeps in the store which servers of a cluster are alive, and where: a key for each that expires
// when it isn't renewed. Keys and values are upstream's, so that its servers and these know of each other.
package serverlease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/storage"
)

// Lease is what is written down of a server, in a form that upstream's servers read and write.
//
//lint:ignore SA1019 the kind is theirs
type Lease = corev1.Endpoints

// Servers are those of which the keys lie below Root. It has no state of its own.
type Servers struct {
	Store storage.Store
	Root  string        // without the slash at its end
	Life  time.Duration // of a key that is not renewed
}

// tries bounds how often a write that another came before is tried again.
const tries = 5

func (s *Servers) key(name string) string { return s.Root + "/" + name }

// Renew lets a server live for Life from now, at what set writes down of it.
func (s *Servers) Renew(ctx context.Context, name string, set func(*Lease)) error {
	key := s.key(name)
	current, err := s.Store.Get(ctx, key)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	for range tries {
		err = s.put(ctx, key, set, current)
		var conflict *storage.ConflictError
		switch {
		case errors.As(err, &conflict):
			current = conflict.Current
		case errors.Is(err, storage.ErrExists):
			if current, err = s.Store.Get(ctx, key); err != nil && !errors.Is(err, storage.ErrNotFound) {
				return err
			}
		default:
			return err
		}
	}
	return fmt.Errorf("the lease of %s changed at every try: %w", name, err)
}

func (s *Servers) put(ctx context.Context, key string, set func(*Lease), current storage.KeyValue) error {
	lease := &Lease{}
	if former, err := open(current.Value); err == nil {
		lease.ObjectMeta = former.ObjectMeta
	}
	set(lease)
	lease.Generation++
	body, err := lease.Marshal()
	if err != nil {
		return err
	}
	value := codec.AppendEnvelope(nil, corev1.SchemeGroupVersion.WithKind("Endpoints"), body)
	if current.Revision == 0 {
		_, err = s.Store.Create(ctx, key, value, s.Life)
	} else {
		_, err = s.Store.Update(ctx, key, value, current.Revision, s.Life)
	}
	return err
}

func open(value []byte) (*Lease, error) {
	lease := &Lease{}
	if !codec.IsEnvelope(value) {
		return lease, json.Unmarshal(value, lease)
	}
	_, body, err := codec.OpenEnvelope(value)
	if err != nil {
		return nil, err
	}
	return lease, lease.Unmarshal(body)
}

// Get returns what is written down of a server that lives. Errors: storage.ErrNotFound.
func (s *Servers) Get(ctx context.Context, name string) (*Lease, error) {
	item, err := s.Store.Get(ctx, s.key(name))
	if err != nil {
		return nil, err
	}
	return open(item.Value)
}

// List returns what is written down of all that live, in the order of their keys.
func (s *Servers) List(ctx context.Context) ([]*Lease, error) {
	page, err := s.Store.List(ctx, storage.Range{Prefix: s.Root + "/"})
	if err != nil {
		return nil, err
	}
	var out []*Lease
	for _, item := range page.Items {
		lease, err := open(item.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", item.Key, err)
		}
		out = append(out, lease)
	}
	return out, nil
}

// Remove ends the life of a server now.
func (s *Servers) Remove(ctx context.Context, name string) error {
	key := s.key(name)
	current, err := s.Store.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	for i := 0; err == nil && i < tries; i++ {
		var conflict *storage.ConflictError
		if _, err = s.Store.Delete(ctx, key, current.Revision); !errors.As(err, &conflict) {
			return err
		}
		if current, err = conflict.Current, nil; current.Revision == 0 {
			return nil
		}
	}
	return err
}

// Root is the key below which the servers of one sort are kept, in a store of which all keys begin with prefix.
func Root(prefix, sort string) string { return strings.TrimSuffix(prefix, "/") + "/" + sort }
