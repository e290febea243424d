package services

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"quintet.dev/quintet/components/apiserver/storage"
)

// envelope starts every value that is stored as protobuf.
var envelope = []byte("k8s\x00")

// StoredRange is a Ranges in the store, as a RangeAllocation in upstream's form.
type StoredRange struct {
	Store storage.Store
	// Key is where it is kept: <prefix>/ranges/servicenodeports.
	Key string
	// Range is written beside the bits, "30000-32767".
	Range string
}

// Get implements Ranges.
func (s *StoredRange) Get(ctx context.Context) (*big.Int, error) {
	kv, err := s.Store.Get(ctx, s.Key)
	if errors.Is(err, storage.ErrNotFound) {
		return new(big.Int), nil
	}
	if err != nil {
		return nil, err
	}
	return decode(kv)
}

// Update implements Ranges.
func (s *StoredRange) Update(ctx context.Context, change func(bits *big.Int) error) error {
	kv, err := s.Store.Get(ctx, s.Key)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		retry, err := s.try(ctx, kv, change)
		if err != nil || retry == nil {
			return err
		}
		kv = *retry
	}
}

// try changes what is at kv, and returns what is stored instead if that was no longer so.
func (s *StoredRange) try(ctx context.Context, kv storage.KeyValue, change func(*big.Int) error) (*storage.KeyValue, error) {
	bits := new(big.Int)
	if kv.Revision != 0 {
		var err error
		if bits, err = decode(kv); err != nil {
			return nil, err
		}
	}
	before := bits.Bytes()
	if err := change(bits); err != nil {
		return nil, err
	}
	if kv.Revision != 0 && !kv.Stale && bytes.Equal(before, bits.Bytes()) {
		return nil, nil
	}
	value, err := s.encode(bits)
	if err != nil {
		return nil, err
	}
	if kv.Revision == 0 {
		_, err = s.Store.Create(ctx, s.Key, value, 0)
		if !errors.Is(err, storage.ErrExists) {
			return nil, err
		}
		now, err := s.Store.Get(ctx, s.Key)
		if errors.Is(err, storage.ErrNotFound) {
			return &storage.KeyValue{}, nil
		}
		return &now, err
	}
	_, err = s.Store.Update(ctx, s.Key, value, kv.Revision, 0)
	if conflict := new(storage.ConflictError); errors.As(err, &conflict) {
		return &conflict.Current, nil
	}
	return nil, err
}

func (s *StoredRange) encode(bits *big.Int) ([]byte, error) {
	body, err := (&corev1.RangeAllocation{Range: s.Range, Data: bits.Bytes()}).Marshal()
	if err != nil {
		return nil, err
	}
	value, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "RangeAllocation"}, Raw: body}).Marshal()
	if err != nil {
		return nil, err
	}
	return append(bytes.Clone(envelope), value...), nil
}

func decode(kv storage.KeyValue) (*big.Int, error) {
	if kv.Unreadable != nil {
		return nil, fmt.Errorf("services: %w", kv.Unreadable)
	}
	body, ok := bytes.CutPrefix(kv.Value, envelope)
	if !ok {
		return nil, fmt.Errorf("services: value of %s is no protobuf envelope: delete the key, it is built again from the services", kv.Key)
	}
	var unknown runtime.Unknown
	var allocation corev1.RangeAllocation
	if err := unknown.Unmarshal(body); err != nil {
		return nil, fmt.Errorf("services: decode %s: %w", kv.Key, err)
	}
	if err := allocation.Unmarshal(unknown.Raw); err != nil {
		return nil, fmt.Errorf("services: decode %s: %w", kv.Key, err)
	}
	return new(big.Int).SetBytes(allocation.Data), nil
}
