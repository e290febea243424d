// Package etcd runs etcd inside this process, for clusters that need no containers. The program and the image are
// upstream's (cmd/etcd); this is the same server, embedded.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// startTimeout bounds the election of a single member by itself.
const startTimeout = 30 * time.Second

// Config of one stand-alone member.
type Config struct {
	// DataDir holds the database and the log; it is kept when the server ends.
	DataDir string
	// ClientURL is where clients are served, e.g. "http://127.0.0.1:2379". Port 0 takes a free one.
	ClientURL string
	// UnsafeNoFsync trades durability against a crash of the machine for speed.
	UnsafeNoFsync bool
	// RestoreSnapshot is the file of a snapshot that DataDir is made from, once, if it exists.
	RestoreSnapshot string
	// CertFile and KeyFile serve an https ClientURL, and TrustedCAFile signs the certificates of its clients.
	CertFile, KeyFile, TrustedCAFile string
	// ClientCertAuth demands such a certificate of every client.
	ClientCertAuth bool
	// LogLevel is zap's: "fatal" if empty.
	LogLevel string
}

// Server is an embedded etcd member.
type Server struct {
	config  *embed.Config
	restore Restore
	ready   chan struct{}
	url     string // set before ready is closed
}

// New checks the configuration; nothing is opened before Run.
func New(c Config) (*Server, error) {
	if c.DataDir == "" {
		return nil, errors.New("etcd: DataDir is empty; give a directory that may be written")
	}
	client, err := url.Parse(c.ClientURL)
	if err != nil || client.Host == "" {
		return nil, fmt.Errorf("etcd: ClientURL %q is not a URL such as http://127.0.0.1:2379", c.ClientURL)
	}
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"} // a single member is never dialled by a peer
	config := embed.NewConfig()
	config.Name = "embedded"
	config.Dir = c.DataDir
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.TickMs, config.ElectionMs = 10, 100 // it has no peers to wait for
	config.UnsafeNoFsync = c.UnsafeNoFsync
	config.ClientTLSInfo.CertFile, config.ClientTLSInfo.KeyFile = c.CertFile, c.KeyFile
	config.ClientTLSInfo.TrustedCAFile, config.ClientTLSInfo.ClientCertAuth = c.TrustedCAFile, c.ClientCertAuth
	config.LogLevel = "fatal" // its way to end is to log several errors
	if c.LogLevel != "" {
		config.LogLevel = c.LogLevel
	}
	restore := Restore{Snapshot: c.RestoreSnapshot, DataDir: c.DataDir, Name: config.Name, PeerURL: peer.String(),
		InitialCluster: config.InitialCluster}
	return &Server{config: config, restore: restore, ready: make(chan struct{})}, nil
}

// Run serves until ctx ends, and may be called once.
func (s *Server) Run(ctx context.Context) error {
	if s.restore.Snapshot != "" {
		if err := s.restore.Run(); err != nil {
			return err
		}
	}
	etcd, err := embed.StartEtcd(s.config)
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	defer etcd.Close()
	select {
	case <-etcd.Server.ReadyNotify():
	case err := <-etcd.Err():
		return fmt.Errorf("etcd: %w", err)
	case <-time.After(startTimeout):
		return fmt.Errorf("etcd: no leader after %s", startTimeout)
	case <-ctx.Done():
		return nil
	}
	s.url = s.config.ListenClientUrls[0].Scheme + "://" + etcd.Clients[0].Addr().String()
	close(s.ready)
	select {
	case err := <-etcd.Err():
		return fmt.Errorf("etcd: %w", err)
	case <-ctx.Done():
		return nil
	}
}

// Ready is closed when clients are served.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// ClientURL is where clients are served, with the real port. It is valid once Ready is closed.
func (s *Server) ClientURL() string { return s.url }
