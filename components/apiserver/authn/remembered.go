package authn

import (
	"crypto/sha256"
	"crypto/tls"
	cryptox509 "crypto/x509"
	"net/http"
	"slices"
	"sync"
	"time"
	"weak"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/utils/clock"
)

// maxRemembered bounds the certificates that are remembered; when there are more, all are forgotten.
const maxRemembered = 4096

// remembered authenticates client certificates, and knows their owners as authenticated. A connection shows the same
// certificate with every request, and to verify it costs more than to serve a GET: so what was found holds until one of
// the certificates that it rests on ends, or the authorities change.
type remembered struct {
	x509   authenticator.Request
	verify x509.VerifyOptionFunc
	clock  clock.PassiveClock
	shown  func(remaining time.Duration) // takes how long each certificate is still good, by request; nil takes nothing

	mu    sync.RWMutex
	roots *cryptox509.CertPool // that verified what is known
	known map[shown]verified
}

// shown are the certificates of a connection: the first, which is the same for all connections that show it at a time,
// and a sum of the others, if there are any.
type shown struct {
	first  weak.Pointer[cryptox509.Certificate]
	others [sha256.Size]byte
}

type verified struct {
	response *authenticator.Response // shared: not to be changed
	// All certificates of the chains are valid from from until until.
	from, until time.Time
}

func newRemembered(verify x509.VerifyOptionFunc, owner x509.UserConversionFunc, clk clock.PassiveClock) *remembered {
	given := verify
	verify = func() (cryptox509.VerifyOptions, bool) { // in the server's time
		options, ok := given()
		options.CurrentTime = clk.Now()
		return options, ok
	}
	certificates := x509.NewDynamic(verify, owner)
	return &remembered{x509: group.NewAuthenticatedGroupAdder(certificates), verify: verify, clock: clk}
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
	if m.shown != nil {
		m.shown(r.TLS.PeerCertificates[0].NotAfter.Sub(m.clock.Now()))
	}
	key := shownBy(r.TLS)
	if response := m.recall(key, options.Roots); response != nil {
		return response, true, nil
	}
	response, ok, err := m.x509.AuthenticateRequest(r)
	if err == nil && ok {
		m.remember(key, options, r.TLS, response)
	}
	return response, ok, err
}

func shownBy(state *tls.ConnectionState) shown {
	key := shown{first: weak.Make(state.PeerCertificates[0])}
	if len(state.PeerCertificates) > 1 {
		var all []byte
		for _, c := range state.PeerCertificates[1:] {
			all = append(all, c.Raw...)
		}
		key.others = sha256.Sum256(all)
	}
	return key
}

func (m *remembered) recall(key shown, roots *cryptox509.CertPool) *authenticator.Response {
	m.mu.RLock()
	defer m.mu.RUnlock()
	v, ok := m.known[key]
	now := m.clock.Now()
	if !ok || m.roots != roots || now.Before(v.from) || now.After(v.until) {
		return nil
	}
	return v.response
}

func (m *remembered) remember(key shown, options cryptox509.VerifyOptions, state *tls.ConnectionState,
	response *authenticator.Response) {
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
	v := verified{response: response, from: chains[0][0].NotBefore, until: chains[0][0].NotAfter}
	for _, chain := range chains {
		for _, c := range chain {
			v.from = slices.MaxFunc([]time.Time{v.from, c.NotBefore}, time.Time.Compare)
			v.until = slices.MinFunc([]time.Time{v.until, c.NotAfter}, time.Time.Compare)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || m.roots != options.Roots || len(m.known) >= maxRemembered {
		m.known = map[shown]verified{}
		m.roots = options.Roots
	}
	m.known[key] = v
}
