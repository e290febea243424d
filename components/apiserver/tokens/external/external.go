// Package external has service account tokens signed by another process, which keeps the keys and is reached over a
// Unix socket (https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#external-token-signer).
package external

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	externaljwtv1 "k8s.io/externaljwt/apis/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/tokens"
)

// Bounds of the questions.
const (
	fetchTimeout    = time.Minute
	metadataTimeout = 10 * time.Second
	fetchRetry      = 10 * time.Second
	shortestLife    = 10 * time.Minute
	longestKeyID    = 1024
)

// Signer is the process that signs. It is safe for concurrent use.
type Signer struct {
	conn    *grpc.ClientConn
	client  externaljwtv1.ExternalJWTSignerClient
	clock   clock.WithTicker
	metrics *metrics

	fetching singleflight.Group
	mu       sync.Mutex
	keys     []tokens.RemoteKey
	next     time.Time // when keys are to be fetched again
	changed  func([]tokens.RemoteKey)
}

// Dial connects to the process that listens on a Unix socket, an abstract one if path begins with @, and fetches its
// keys.
func Dial(ctx context.Context, path string, c clock.WithTicker, register Register) (*Signer, error) {
	s := &Signer{clock: c}
	var err error
	if s.metrics, err = newMetrics(register); err != nil {
		return nil, err
	}
	s.conn, err = grpc.NewClient("passthrough:///"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}),
		grpc.WithChainUnaryInterceptor(s.metrics.measure),
	)
	if err != nil {
		return nil, fmt.Errorf("while dialing grpc socket at %q: %w", path, err)
	}
	s.client = externaljwtv1.NewExternalJWTSignerClient(s.conn)
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	if err := s.Refresh(ctx); err != nil {
		_ = s.conn.Close()
		return nil, fmt.Errorf("while initially filling key cache: %w", err)
	}
	return s, nil
}

// Close ends the connection.
func (s *Signer) Close() {
	if s != nil {
		_ = s.conn.Close()
	}
}

// LongestLife is that of the tokens that are signed.
func (s *Signer) LongestLife(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	got, err := s.client.Metadata(ctx, &externaljwtv1.MetadataRequest{})
	if err != nil {
		return 0, err
	}
	life := time.Duration(got.MaxTokenExpirationSeconds) * time.Second
	if life < shortestLife {
		return 0, fmt.Errorf("max token life supported by external-jwt-signer (%ds) is less than acceptable (min %ds)",
			got.MaxTokenExpirationSeconds, int64(shortestLife.Seconds()))
	}
	return life, nil
}

// Follow calls changed with the keys, now and whenever they are others.
func (s *Signer) Follow(changed func([]tokens.RemoteKey)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = changed
	changed(s.keys)
}

// Fresh implements tokens.Remote.
func (s *Signer) Fresh() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.next.Sub(s.clock.Now()), 0)
}

// Run fetches keys as often as the process wants it, until ctx ends.
func (s *Signer) Run(ctx context.Context) error {
	if s == nil {
		return nil
	}
	timer := s.clock.NewTimer(s.Fresh())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C():
		}
		fetch, cancel := context.WithTimeout(ctx, fetchTimeout)
		wait := fetchRetry
		if err := s.Refresh(fetch); err == nil {
			wait = s.Fresh()
		} else if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to fetch service account token keys; keeping the last ones")
		}
		cancel()
		timer.Reset(wait)
	}
}

// Refresh implements tokens.Remote: it fetches the keys, once for all who want that at a time.
func (s *Signer) Refresh(ctx context.Context) error {
	_, err, _ := s.fetching.Do("", func() (any, error) {
		keys, response, err := s.fetch(ctx)
		s.metrics.fetched(response, err, s.clock.Now())
		if err != nil {
			return nil, fmt.Errorf("while fetching token verification keys: %w", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.next = s.clock.Now().Add(time.Duration(response.RefreshHintSeconds) * time.Second)
		same := slices.EqualFunc(s.keys, keys,
			func(a, b tokens.RemoteKey) bool { return a.ID == b.ID && a.Hidden == b.Hidden && a.PKIX == b.PKIX })
		s.keys = keys
		if !same && s.changed != nil {
			s.changed(keys)
		}
		return nil, nil
	})
	return err
}

func (s *Signer) fetch(ctx context.Context) ([]tokens.RemoteKey, *externaljwtv1.FetchKeysResponse, error) {
	got, err := s.client.FetchKeys(ctx, &externaljwtv1.FetchKeysRequest{})
	if err != nil {
		return nil, nil, err
	}
	if got.RefreshHintSeconds <= 0 {
		return nil, nil, fmt.Errorf("found invalid refresh hint (%ds)", got.RefreshHintSeconds)
	}
	if len(got.Keys) == 0 {
		return nil, nil, errors.New("found no keys")
	}
	if err := got.DataTimestamp.CheckValid(); err != nil {
		return nil, nil, fmt.Errorf("invalid data timestamp: %w", err)
	}
	var keys []tokens.RemoteKey
	for _, k := range got.Keys {
		switch {
		case k == nil:
			return nil, nil, errors.New("found nil public key")
		case len(k.KeyId) == 0 || len(k.KeyId) > longestKeyID:
			return nil, nil, fmt.Errorf("found invalid public key id %q", k.KeyId)
		case len(k.Key) == 0:
			return nil, nil, errors.New("found empty public key")
		}
		public, err := x509.ParsePKIXPublicKey(k.Key)
		if err != nil {
			return nil, nil, fmt.Errorf("while parsing external public keys: %w", err)
		}
		keys = append(keys, tokens.RemoteKey{ID: k.KeyId, Key: public, PKIX: string(k.Key),
			Hidden: k.ExcludeFromOidcDiscovery})
	}
	return keys, got, nil
}

// Sign implements tokens.Remote.
func (s *Signer) Sign(ctx context.Context, claims []byte) (token string, err error) {
	defer func() { s.metrics.signed(err) }()
	payload := base64.RawURLEncoding.EncodeToString(claims)
	got, err := s.client.Sign(ctx, &externaljwtv1.SignJWTRequest{Claims: payload})
	if err != nil {
		return "", fmt.Errorf("while signing jwt: %w", err)
	}
	if err := s.checkHeader(ctx, got.Header); err != nil {
		return "", fmt.Errorf("while validating header: %w", err)
	}
	if got.Signature == "" {
		return "", errors.New("empty signature returned")
	}
	return got.Header + "." + payload + "." + got.Signature, nil
}
