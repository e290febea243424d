// Package etcd is the Store on an etcd cluster: one transaction per write, one gRPC stream for all watches.
package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	certutil "k8s.io/client-go/util/cert"

	"quintet.dev/quintet/components/apiserver/storage"
)

// Config says where the cluster is and how to prove who we are to it.
type Config struct {
	Endpoints []string
	// CAFile, CertFile and KeyFile are PEM files for TLS; all may be empty for plain http.
	CAFile, CertFile, KeyFile string
	// LeaseReuse is for how long keys that end at about the same time share a lease; 0 means a minute.
	LeaseReuse time.Duration
	// Dial connects to the cluster; nil does so straight.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Metrics count calls; nil counts none.
	Metrics *Metrics
	// Tracing makes spans of calls; nil makes none.
	Tracing trace.TracerProvider
}

// Store keeps its values in etcd.
type Store struct {
	client *clientv3.Client
	kv     pb.KVClient // over the client's connection
	leases *leases

	progress progress
}

var _ storage.Store = (*Store)(nil)

// Connection behaviour. A server often starts together with its etcd, so the first attempts come fast.
const (
	keepAliveTime    = 30 * time.Second
	keepAliveTimeout = 10 * time.Second
	connectTimeout   = 3 * time.Second
	firstRetry       = 50 * time.Millisecond
	slowestRetry     = 2 * time.Second
)

// New makes a store. It doesn't wait for etcd: calls fail, or wait for their context, until etcd is there.
func New(config Config) (*Store, error) {
	if len(config.Endpoints) == 0 {
		return nil, errors.New("etcd: no endpoint is given (--etcd-servers)")
	}
	c := clientv3.Config{
		Endpoints:            config.Endpoints,
		DialKeepAliveTime:    keepAliveTime,
		DialKeepAliveTimeout: keepAliveTimeout,
		Logger:               zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: connectTimeout,
			Backoff: backoff.Config{BaseDelay: firstRetry, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: slowestRetry},
		})},
	}
	if config.CAFile != "" {
		if _, err := certutil.NewPool(config.CAFile); err != nil { // the client would trust no server, without an error
			return nil, fmt.Errorf("etcd: --etcd-cafile %s: %w", config.CAFile, err)
		}
	}
	if config.CAFile != "" || config.CertFile != "" || config.KeyFile != "" {
		info := transport.TLSInfo{CertFile: config.CertFile, KeyFile: config.KeyFile, TrustedCAFile: config.CAFile}
		tls, err := info.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("etcd: TLS files (--etcd-cafile, --etcd-certfile, --etcd-keyfile): %w", err)
		}
		c.TLS = tls
	}
	if config.Tracing != nil {
		c.DialOptions = append(c.DialOptions, grpc.WithStatsHandler(otelgrpc.NewClientHandler(
			otelgrpc.WithPropagators(propagation.TraceContext{}), otelgrpc.WithTracerProvider(config.Tracing))))
	}
	c.DialOptions = append(c.DialOptions, config.Metrics.options()...)
	if config.Dial != nil {
		c.DialOptions = append(c.DialOptions, grpc.WithContextDialer(through(config.Dial)))
	}
	client, err := clientv3.New(c)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	return &Store{client: client, kv: pb.NewKVClient(client.ActiveConnection()),
		leases: &leases{client: client, metrics: config.Metrics, reuse: cmp.Or(config.LeaseReuse, leaseReuse)}}, nil
}

// through dials what gRPC calls an address: with a scheme, or host and port.
func through(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(context.Context,
	string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			address = u.Host
		}
		return dial(ctx, "tcp", address)
	}
}

// Close implements storage.Store.
func (s *Store) Close() error { return s.client.Close() }

// Get implements storage.Store.
func (s *Store) Get(ctx context.Context, key string) (storage.KeyValue, error) {
	resp, err := s.client.Get(ctx, key)
	if err != nil {
		return storage.KeyValue{}, translate(err)
	}
	if len(resp.Kvs) == 0 {
		return storage.KeyValue{}, storage.ErrNotFound
	}
	return keyValue(resp.Kvs[0]), nil
}

// List implements storage.Store.
func (s *Store) List(ctx context.Context, r storage.Range) (storage.Page, error) {
	opts := []clientv3.OpOption{clientv3.WithLimit(r.Limit), clientv3.WithRev(r.Revision)}
	if strings.HasSuffix(r.Prefix, "/") {
		opts = append(opts, clientv3.WithRange(clientv3.GetPrefixRangeEnd(r.Prefix)))
	}
	resp, err := s.client.Get(ctx, max(r.Prefix, r.From), opts...)
	if err != nil {
		return storage.Page{}, translate(err)
	}
	page := storage.Page{Revision: r.Revision, More: resp.More, Items: make([]storage.KeyValue, len(resp.Kvs))}
	if page.Revision == 0 {
		page.Revision = resp.Header.Revision
	}
	for i, kv := range resp.Kvs {
		page.Items[i] = keyValue(kv)
	}
	if resp.More {
		page.Remaining = resp.Count - int64(len(resp.Kvs))
	}
	return page, nil
}

// Create implements storage.Store.
func (s *Store) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	lease, err := s.leases.attach(ctx, ttl)
	if err != nil {
		return 0, translate(err)
	}
	k := []byte(key)
	response, err := s.txn(ctx, k, 0, put(k, value, lease), nil)
	switch {
	case s.leases.lost(ttl, lease, err):
		return s.Create(ctx, key, value, ttl)
	case err != nil:
		return 0, err
	case !response.Succeeded:
		return 0, storage.ErrExists
	}
	return response.Header.Revision, nil
}

// Update implements storage.Store.
func (s *Store) Update(ctx context.Context, key string, value []byte, expected int64, ttl time.Duration) (int64,
	error) {
	lease, err := s.leases.attach(ctx, ttl)
	if err != nil {
		return 0, translate(err)
	}
	k := []byte(key)
	revision, err := s.swap(ctx, k, expected, put(k, value, lease))
	if s.leases.lost(ttl, lease, err) {
		return s.Update(ctx, key, value, expected, ttl)
	}
	return revision, err
}

// Delete implements storage.Store.
func (s *Store) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	k := []byte(key)
	return s.swap(ctx, k, expected, remove(k))
}

func (s *Store) swap(ctx context.Context, key []byte, expected int64, write *pb.RequestOp) (int64, error) {
	response, err := s.txn(ctx, key, expected, write, get(key))
	switch {
	case err != nil:
		return 0, err
	case response.Succeeded:
		return response.Header.Revision, nil
	}
	current := storage.KeyValue{Key: string(key)}
	if kvs := response.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		current = keyValue(kvs[0])
	}
	return 0, &storage.ConflictError{Current: current}
}

// Revision implements storage.Store. It reads a key that can't exist: the cheapest linearizable question.
func (s *Store) Revision(ctx context.Context) (int64, error) {
	resp, err := s.client.Get(ctx, "\x00", clientv3.WithCountOnly())
	if err != nil {
		return 0, translate(err)
	}
	return resp.Header.Revision, nil
}

// Size is how many bytes a database has, by what its members tell.
type Size struct {
	Bytes   int64            // of the first member that answers, -1 if none does
	Members map[string]int64 // by address; -1 for members that don't answer
}

// Size asks all members at once.
func (s *Store) Size(ctx context.Context) Size {
	endpoints := s.client.Endpoints()
	sizes := make([]int64, len(endpoints))
	var asking sync.WaitGroup
	for i, endpoint := range endpoints {
		asking.Go(func() {
			sizes[i] = -1
			if told, err := s.client.Status(ctx, endpoint); err == nil {
				sizes[i] = told.DbSize
			}
		})
	}
	asking.Wait()
	out := Size{Bytes: -1, Members: map[string]int64{}}
	for i, endpoint := range endpoints {
		out.Members[endpoint] = sizes[i]
		if out.Bytes < 0 {
			out.Bytes = sizes[i]
		}
	}
	return out
}

// Compact implements storage.Store.
func (s *Store) Compact(ctx context.Context, revision int64) error {
	_, err := s.client.Compact(ctx, revision)
	return translate(err)
}

// translate maps etcd's errors to the store's.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rpctypes.ErrCompacted):
		return storage.ErrCompacted
	case errors.Is(err, rpctypes.ErrFutureRev):
		return storage.ErrFuture
	//lint:ignore SA1019 what the client returns after Close
	case errors.Is(err, grpc.ErrClientConnClosing):
		return storage.ErrClosed
	case errors.Is(err, rpctypes.ErrRequestTooLarge), unsendable(err):
		return &storage.TooLargeError{Err: err}
	}
	return err // in etcd's words
}

// unsendable tells whether a request was so large that the client didn't even send it.
func unsendable(err error) bool {
	s, ok := status.FromError(err)
	return ok && s.Code() == codes.ResourceExhausted &&
		strings.Contains(s.Message(), "trying to send message larger than max")
}
