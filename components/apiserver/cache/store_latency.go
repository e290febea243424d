package cache

import (
	"context"
	"errors"
	"time"

	"quintet.dev/quintet/components/apiserver/latency"
	"quintet.dev/quintet/components/apiserver/storage"
)

// timed is a store that notes how long requests wait for it, as far as upstream does.
type timed struct{ storage.Store }

func (s timed) Get(ctx context.Context, key string) (storage.KeyValue, error) {
	times := latency.From(ctx)
	defer times.Add(latency.Storage, times.Begin())
	return s.Store.Get(ctx, key)
}

func (s timed) List(ctx context.Context, r storage.Range) (storage.Page, error) {
	times := latency.From(ctx)
	defer times.Add(latency.Storage, times.Begin())
	return s.Store.List(ctx, r)
}

// Create counts if the key exists, which upstream reads then. Transactions themselves are not counted, as upstream's
// measure of them is lost on the way.
func (s timed) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	times := latency.From(ctx)
	begin := times.Begin()
	revision, err := s.Store.Create(ctx, key, value, ttl)
	if errors.Is(err, storage.ErrExists) {
		times.Add(latency.Storage, begin)
	}
	return revision, err
}

// Delete counts, as upstream reads what it deletes.
func (s timed) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	times := latency.From(ctx)
	defer times.Add(latency.Storage, times.Begin())
	return s.Store.Delete(ctx, key, expected)
}
