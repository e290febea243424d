package authn

import (
	"crypto/sha256"
	"crypto/tls"
	cryptox509 "crypto/x509"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/utils/clock"
)

// maxRemembered bounds the certificates that are remembered; when there are more, all are forgotten.
const maxRemembered = 4096

// remembered authenticates client certificates. A connection shows the same certificate with every request, and to verify
// it costs more than to serve a GET: so what was found holds until one of the certificates that it rests on ends, or the
// authorities change.
type remembered struct {
	x509   authenticator.Request
	verify x509.VerifyOptionFunc
	clock  clock.PassiveClock

	mu    sync.RWMutex
	roots *cryptox509.CertPool // that verified what is known
	known map[[sha256.Size]byte]verified
}

type verified struct {
	response *authenticator.Response
	until    time.Time
}

func newRemembered(verify x509.VerifyOptionFunc, clk clock.PassiveClock) *remembered {
	return &remembered{x509: x509.NewDynamic(verify, x509.CommonNameUserConversion), verify: verify, clock: clk}
}

// AuthenticateRequest implements authenticator.Request.
func (m *remembered) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	options, ok := m.verify()
	if !ok {
		return nil, false, nil
	}
	key := fingerprint(r.TLS)
	if response := m.recall(key, options.Roots); response != nil {
		return response, true, nil
	}
	response, ok, err := m.x509.AuthenticateRequest(r)
	if err == nil && ok {
		m.remember(key, options, r.TLS, response)
	}
	return response, ok, err
}

func fingerprint(state *tls.ConnectionState) [sha256.Size]byte {
	if len(state.PeerCertificates) == 1 {
		return sha256.Sum256(state.PeerCertificates[0].Raw)
	}
	var all []byte
	for _, c := range state.PeerCertificates {
		all = append(all, c.Raw...)
	}
	return sha256.Sum256(all)
}

func (m *remembered) recall(key [sha256.Size]byte, roots *cryptox509.CertPool) *authenticator.Response {
	m.mu.RLock()
	defer m.mu.RUnlock()
	v, ok := m.known[key]
	if !ok || m.roots != roots || m.clock.Now().After(v.until) {
		return nil
	}
	response := *v.response
	return &response
}

func (m *remembered) remember(key [sha256.Size]byte, options cryptox509.VerifyOptions, state *tls.ConnectionState, response *authenticator.Response) {
	if len(state.PeerCertificates) > 1 {
		options.Intermediates = cryptox509.NewCertPool()
		for _, c := range state.PeerCertificates[1:] {
			options.Intermediates.AddCert(c)
		}
	}
	chains, err := state.PeerCertificates[0].Verify(options)
	if err != nil {
		return
	}
	until := chains[0][0].NotAfter
	for _, chain := range chains {
		for _, c := range chain {
			if c.NotAfter.Before(until) {
				until = c.NotAfter
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || m.roots != options.Roots || len(m.known) >= maxRemembered {
		m.known = map[[sha256.Size]byte]verified{}
		m.roots = options.Roots
	}
	kept := *response
	m.known[key] = verified{response: &kept, until: until}
}
