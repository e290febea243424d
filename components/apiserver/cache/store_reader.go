package cache

import (
	"context"
	"errors"

	"quintet.dev/quintet/components/apiserver/storage"
)

// storeReader reads objects of a resource from the store itself.
type storeReader struct {
	store storage.Store
	codec *entryCodec
	errs  statusErrors
}

// get returns an object as the store has it.
func (r *storeReader) get(ctx context.Context, key string) (*Entry, error) {
	kv, err := r.read(ctx, key)
	if err != nil {
		return nil, err
	}
	return r.entry(&kv)
}

func (r *storeReader) read(ctx context.Context, key string) (storage.KeyValue, error) {
	kv, err := r.store.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return kv, r.errs.notFound(key)
	}
	return kv, r.errs.store(err, "get")
}

// entry decodes what the store has; of an object that can't be read nothing can be made.
func (r *storeReader) entry(kv *storage.KeyValue) (*Entry, error) {
	e, err := r.codec.decode(kv)
	if err != nil {
		return nil, errUnreadable(err)
	}
	return e, nil
}

// afterConflict returns the entry to try again with, out of what the failed transaction found.
func (r *storeReader) afterConflict(key string, failed error, verb string) (*Entry, error) {
	var conflict *storage.ConflictError
	if !errors.As(failed, &conflict) {
		return nil, r.errs.write(failed, verb)
	}
	if conflict.Current.Revision == 0 {
		return nil, r.errs.notFound(key)
	}
	return r.entry(&conflict.Current)
}
