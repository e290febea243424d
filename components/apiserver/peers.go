package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/peers"
)

// PeerAccess is how this API server and the others of its cluster reach each other.
type PeerAccess struct {
	CAFile        string // authorities of the others' serving certificates; without it no request is passed on to them
	AdvertiseIP   string // or a host name; the advertised address if empty
	AdvertisePort string // the port that is served if empty
}

func (p *PeerAccess) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&p.CAFile, "peer-ca-file", "", "Authorities of other API servers' serving certificates. Requests for what this server doesn't have are then passed on to those who do.")
	fs.StringVar(&p.AdvertiseIP, "peer-advertise-ip", "", "Address, or host name, at which other API servers reach this one; by default the advertised address.")
	fs.StringVar(&p.AdvertisePort, "peer-advertise-port", "", "Port at which other API servers reach this one; by default that of --secure-port.")
}

// check returns what can't be, given whether servers know of each other at all.
func (p *PeerAccess) check(on bool, hasCertificate bool) error {
	for flag, given := range map[string]bool{
		"peer-ca-file": p.CAFile != "", "peer-advertise-ip": p.AdvertiseIP != "", "peer-advertise-port": p.AdvertisePort != "",
	} {
		if given && !on {
			return fmt.Errorf("--%s requires UnknownVersionInteroperabilityProxy feature to be turned on", flag)
		}
	}
	if p.CAFile != "" && !hasCertificate {
		return errors.New("--peer-ca-file needs --proxy-client-cert-file and --proxy-client-key-file, by which others know that a request comes from an API server")
	}
	if port, err := strconv.ParseUint(cmp.Or(p.AdvertisePort, "1"), 10, 16); err != nil || port == 0 {
		return fmt.Errorf("--peer-advertise-port %q is no port", p.AdvertisePort)
	}
	if p.AdvertiseIP != "" && net.ParseIP(p.AdvertiseIP) == nil && len(validation.IsDNS1123Subdomain(strings.ToLower(p.AdvertiseIP))) > 0 {
		return fmt.Errorf("--peer-advertise-ip %q is neither an address nor a host name", p.AdvertiseIP)
	}
	return nil
}

func (s *Server) makePeers() (err error) {
	if err := s.config.Peers.check(s.gates.On(gates.UnknownVersionInteroperabilityProxy), s.aggregator.Certificate() != nil); err != nil {
		return err
	}
	s.peers, err = peers.New(peers.Config{
		ID: s.id(), Address: s.peerAddress(),
		Store: s.places[0].store, Prefix: s.config.EtcdPrefix, Objects: s.local,
		CAFile: s.config.Peers.CAFile, Certificate: s.aggregator.Certificate, Dial: s.egress.ControlPlane(),
		Changed: s.custom.discovery.SetPeers, Clock: s.config.Clock,
	})
	if err != nil {
		return err
	}
	return s.peers.Register(s.registry)
}

// toldPeers is peerAddress, if servers know of each other.
func (s *Server) toldPeers() string {
	if !s.gates.On(gates.UnknownVersionInteroperabilityProxy) {
		return ""
	}
	return s.peerAddress()
}

// peerAddress is where other API servers reach this one.
func (s *Server) peerAddress() string {
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
	if err != nil {
		return s.listener.Addr().String()
	}
	if ip, advertised := s.advertised(); ip != nil {
		host, port = ip.String(), strconv.Itoa(advertised)
	}
	if s.config.Peers.AdvertiseIP != "" {
		host = s.config.Peers.AdvertiseIP
	}
	if s.config.Peers.AdvertisePort != "" {
		port = s.config.Peers.AdvertisePort
	}
	return net.JoinHostPort(host, port)
}

// route returns what serves a request in the place of this server, or nil.
func (s *Server) route(r *http.Request) http.Handler {
	if h := s.aggregator.Route(r); h != nil {
		return h
	}
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok || !info.IsResourceRequest || s.peers.Alone() {
		return nil
	}
	if s.api.Serves(&request.RequestInfo{APIGroup: info.APIGroup, APIVersion: info.APIVersion, Resource: info.Resource}) {
		return nil
	}
	return s.peers.Route(r, info)
}

// beKnown tells the cluster of this server until ctx ends, and then takes that back.
func (s *Server) beKnown(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.keepBootstrap(ctx) })
	if s.gates.On(gates.UnknownVersionInteroperabilityProxy) {
		group.Go(func() error { return s.peers.Run(ctx) })
	}
	return group.Wait()
}
