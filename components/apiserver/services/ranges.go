package services

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"quintet.dev/quintet/components/apiserver/storage"
)

// envelope starts every value that is stored as protobuf.
var envelope = []byte("k8s\x00")

var (
	errNoRange    = errors.New("cannot allocate resources of type servicenodeportallocations at this time")
	errOtherRange = errors.New("the provided range does not match the current range")
)

// StoredRange is a Ranges in the store, as a RangeAllocation in upstream's form.
type StoredRange struct {
	Store storage.Store
	// Key is where it is kept: <prefix>/ranges/servicenodeports.
	Key string
	// Range is written beside the bits.
	Range utilnet.PortRange
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
	bits, _, err := s.decode(kv)
	return bits, err
}

// Update implements Ranges.
func (s *StoredRange) Update(ctx context.Context, change func(bits *big.Int) error) error {
	return s.write(ctx, false, change)
}

// Rebuild implements Ranges.
func (s *StoredRange) Rebuild(ctx context.Context, change func(bits *big.Int) error) error {
	return s.write(ctx, true, change)
}

func (s *StoredRange) write(ctx context.Context, rebuild bool, change func(bits *big.Int) error) error {
	kv, err := s.Store.Get(ctx, s.Key)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		retry, err := s.try(ctx, kv, rebuild, change)
		if err != nil || retry == nil {
			return err
		}
		kv = *retry
	}
}

// try changes what is at kv, and returns what is stored instead if that was no longer so.
func (s *StoredRange) try(ctx context.Context, kv storage.KeyValue, rebuild bool,
	change func(*big.Int) error) (*storage.KeyValue, error) {
	bits, same := new(big.Int), true
	if kv.Revision != 0 {
		var err error
		if bits, same, err = s.decode(kv); err != nil {
			return nil, err
		}
	}
	switch {
	case rebuild:
	case kv.Revision == 0:
		return nil, errNoRange
	case !same:
		return nil, errOtherRange
	}
	before := bits.Bytes()
	if err := change(bits); err != nil {
		return nil, err
	}
	if kv.Revision != 0 && same && !kv.Stale && bytes.Equal(before, bits.Bytes()) {
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
	body, err := (&corev1.RangeAllocation{Range: s.Range.String(), Data: bits.Bytes()}).Marshal()
	if err != nil {
		return nil, err
	}
	value, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "RangeAllocation"},
		Raw: body}).Marshal()
	if err != nil {
		return nil, err
	}
	return append(bytes.Clone(envelope), value...), nil
}

// decode reads the bits of our range, and tells whether that is the one that they were written for.
func (s *StoredRange) decode(kv storage.KeyValue) (bits *big.Int, same bool, err error) {
	allocation, err := decode(kv)
	if err != nil {
		return nil, false, err
	}
	stored := new(big.Int).SetBytes(allocation.Data)
	if allocation.Range == s.Range.String() {
		return stored, true, nil
	}
	other, err := utilnet.ParsePortRange(allocation.Range)
	if err != nil {
		return nil, false, fmt.Errorf("services: range of %s: %w", kv.Key, err)
	}
	bits = new(big.Int)
	for i := range s.Range.Size {
		if at := s.Range.Base + i - other.Base; at >= 0 {
			bits.SetBit(bits, i, stored.Bit(at))
		}
	}
	return bits, false, nil
}

func decode(kv storage.KeyValue) (*corev1.RangeAllocation, error) {
	if kv.Unreadable != nil {
		return nil, fmt.Errorf("services: %w", kv.Unreadable)
	}
	body, ok := bytes.CutPrefix(kv.Value, envelope)
	if !ok {
		return nil,
			fmt.Errorf("services: value of %s is no protobuf envelope: delete the key, it is built again from the services",
				kv.Key)
	}
	var unknown runtime.Unknown
	var allocation corev1.RangeAllocation
	if err := unknown.Unmarshal(body); err != nil {
		return nil, fmt.Errorf("services: decode %s: %w", kv.Key, err)
	}
	if err := allocation.Unmarshal(unknown.Raw); err != nil {
		return nil, fmt.Errorf("services: decode %s: %w", kv.Key, err)
	}
	return &allocation, nil
}
