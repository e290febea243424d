package cache

import (
	"context"
	"time"

	"quintet.dev/quintet/components/apiserver/spent"
	"quintet.dev/quintet/components/apiserver/storage"
)

// timed is a store that notes how long requests wait for it.
type timed struct{ storage.Store }

func (s timed) Get(ctx context.Context, key string) (storage.KeyValue, error) {
	times := spent.From(ctx)
	defer times.Add(spent.Storage, times.Begin())
	return s.Store.Get(ctx, key)
}

func (s timed) List(ctx context.Context, r storage.Range) (storage.Page, error) {
	times := spent.From(ctx)
	defer times.Add(spent.Storage, times.Begin())
	return s.Store.List(ctx, r)
}

func (s timed) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	times := spent.From(ctx)
	defer times.Add(spent.Storage, times.Begin())
	return s.Store.Create(ctx, key, value, ttl)
}

func (s timed) Update(ctx context.Context, key string, value []byte, expected int64, ttl time.Duration) (int64, error) {
	times := spent.From(ctx)
	defer times.Add(spent.Storage, times.Begin())
	return s.Store.Update(ctx, key, value, expected, ttl)
}

func (s timed) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	times := spent.From(ctx)
	defer times.Add(spent.Storage, times.Begin())
	return s.Store.Delete(ctx, key, expected)
}
