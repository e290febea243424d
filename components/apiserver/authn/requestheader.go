package authn

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
)

// RequestHeader describes an authenticating proxy: it shows a certificate of ClientCAFile whose name is among
// AllowedNames (empty: any), and names its user in headers
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#authenticating-proxy). Each field has the
// flag
// --requestheader-... of its name.
type RequestHeader struct {
	ClientCAFile        string
	AllowedNames        []string
	UsernameHeaders     []string
	UIDHeaders          []string
	GroupHeaders        []string
	ExtraHeaderPrefixes []string
}

// check names the flag of a header without a name. Headers for UIDs must include the one by which API servers tell them
// to one another.
func (h *RequestHeader) check() error {
	for _, f := range []struct {
		flag   string
		values []string
	}{
		{"requestheader-username-headers", h.UsernameHeaders},
		{"requestheader-uid-headers", h.UIDHeaders},
		{"requestheader-group-headers", h.GroupHeaders},
		{"requestheader-extra-headers-prefix", h.ExtraHeaderPrefixes},
		{"requestheader-allowed-names", h.AllowedNames},
	} {
		for _, value := range f.values {
			if strings.TrimSpace(value) == "" {
				return fmt.Errorf("--%s: empty value in %q", f.flag, f.values)
			}
		}
	}
	if len(h.UIDHeaders) > 0 &&
		!slices.ContainsFunc(h.UIDHeaders, func(name string) bool { return strings.EqualFold(name, "X-Remote-Uid") }) {
		return errors.New("--requestheader-uid-headers is set without the standard X-Remote-Uid header: API aggregation " +
			"will not work")
	}
	return nil
}

// errOverlap is upstream's: any holder of a client certificate could name any user otherwise.
var errOverlap = errors.New("--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; " +
	"--requestheader-allowed-names must be specified to ensure regular client certificates cannot set authenticating " +
	"proxy headers for arbitrary users")

func (h *RequestHeader) authenticator(ca *caFile) authenticator.Request {
	list := func(values []string) headerrequest.StringSliceProvider {
		return headerrequest.StaticStringSlice(values)
	}
	return headerrequest.NewDynamicVerifyOptionsSecure(ca.verifyOptions, list(h.AllowedNames),
		list(h.UsernameHeaders), list(h.UIDHeaders), list(h.GroupHeaders), list(h.ExtraHeaderPrefixes))
}

// proxyHeaders are the headers of an authenticating proxy, also those that upstream's proxies set by default.
type proxyHeaders struct {
	names    map[string]bool // in canonical form
	prefixes []string
}

func (h *RequestHeader) headers() proxyHeaders {
	out := proxyHeaders{names: map[string]bool{},
		prefixes: append([]string{"X-Remote-Extra-"}, h.ExtraHeaderPrefixes...)}
	for _, names := range [][]string{{"X-Remote-User", "X-Remote-Uid", "X-Remote-Group"}, h.UsernameHeaders,
		h.UIDHeaders, h.GroupHeaders} {
		for _, name := range names {
			out.names[http.CanonicalHeaderKey(name)] = true
		}
	}
	return out
}

// clear removes the headers of a proxy from an authenticated request: backends of this server must not trust them.
func (p *proxyHeaders) clear(header http.Header) {
	for name := range header {
		if p.names[name] || slices.ContainsFunc(p.prefixes,
			func(prefix string) bool { return hasPrefixFold(name, prefix) }) {
			delete(header, name)
		}
	}
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
