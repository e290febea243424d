package etcd

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"quintet.dev/quintet/components/apiserver/storage"
)

// rewatchPause is waited after etcd has ended a watch (it lost its leader, say), before the next try.
const rewatchPause = 100 * time.Millisecond

type watcher struct {
	client *clientv3.Client
	prefix string
	events chan []storage.Event
	err    atomic.Pointer[error]
}

// Events implements storage.Watcher.
func (w *watcher) Events() <-chan []storage.Event { return w.events }

// Err implements storage.Watcher.
func (w *watcher) Err() error {
	if err := w.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Watch implements storage.Store.
func (s *Store) Watch(ctx context.Context, prefix string, after int64) storage.Watcher {
	w := &watcher{client: s.client, prefix: prefix, events: make(chan []storage.Event, 16)}
	go w.run(ctx, after)
	return w
}

// RequestProgress implements storage.Store. A request reaches the watches of its own stream, which the client chooses
// by the context's metadata: so it is made as that of the watches.
func (s *Store) RequestProgress(ctx context.Context) error {
	return translate(s.client.RequestProgress(clientv3.WithRequireLeader(ctx)))
}

// run watches again from where it was, whatever ends a watch, but for compaction and the end of ctx.
func (w *watcher) run(ctx context.Context, after int64) {
	defer close(w.events)
	for ctx.Err() == nil {
		var err error
		if after, err = w.follow(ctx, after); err != nil {
			w.err.Store(&err)
			return
		}
		if w.client.Ctx().Err() != nil {
			w.err.Store(&storage.ErrClosed)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(rewatchPause):
		}
	}
}

// follow runs one watch of the client until it ends, and returns the revision that it reached.
func (w *watcher) follow(ctx context.Context, after int64) (int64, error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	opts := []clientv3.OpOption{clientv3.WithRev(after + 1), clientv3.WithProgressNotify()}
	if strings.HasSuffix(w.prefix, "/") {
		opts = append(opts, clientv3.WithPrefix())
	}
	for resp := range w.client.Watch(ctx, w.prefix, opts...) {
		if resp.CompactRevision != 0 {
			return after, storage.ErrCompacted
		}
		if resp.Err() != nil {
			return after, nil
		}
		batch := batchOf(resp)
		if len(batch) == 0 {
			continue
		}
		select {
		case w.events <- batch:
			after = max(after, batch[len(batch)-1].Revision)
		case <-ctx.Done():
			return after, nil
		}
	}
	return after, nil
}

func batchOf(resp clientv3.WatchResponse) []storage.Event {
	if resp.IsProgressNotify() {
		return []storage.Event{{Type: storage.Progress, KeyValue: storage.KeyValue{Revision: resp.Header.Revision}}}
	}
	batch := make([]storage.Event, len(resp.Events))
	for i, e := range resp.Events {
		batch[i] = storage.Event{Type: storage.Put, KeyValue: keyValue(e.Kv)}
		if e.Type == clientv3.EventTypeDelete {
			batch[i].Type = storage.Delete
		}
	}
	return batch
}

func keyValue(kv *mvccpb.KeyValue) storage.KeyValue {
	return storage.KeyValue{Key: string(kv.Key), Value: kv.Value, Revision: kv.ModRevision}
}
