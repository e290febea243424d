package authn

import (
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// RequestHeader describes an authenticating proxy: it shows a certificate of ClientCAFile whose name is among
// AllowedNames (empty: any), and names its user in headers. It authenticates only behind a check of that certificate.
type RequestHeader struct {
	ClientCAFile        string
	AllowedNames        []string
	UsernameHeaders     []string
	UIDHeaders          []string
	GroupHeaders        []string
	ExtraHeaderPrefixes []string
}

// AuthenticateRequest reads the user from the headers and takes them out of the request.
func (h *RequestHeader) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	name := first(r.Header, h.UsernameHeaders)
	if name == "" {
		return nil, false, nil
	}
	u := &user.DefaultInfo{
		Name:  name,
		UID:   first(r.Header, h.UIDHeaders),
		Extra: h.extra(r.Header),
	}
	for _, header := range h.GroupHeaders {
		for _, g := range r.Header.Values(header) {
			if g != "" {
				u.Groups = append(u.Groups, g)
			}
		}
	}
	h.clear(r.Header)
	return &authenticator.Response{User: u}, true, nil
}

func first(header http.Header, names []string) string {
	for _, name := range names {
		if v := header.Get(name); v != "" {
			return v
		}
	}
	return ""
}

func (h *RequestHeader) extra(header http.Header) map[string][]string {
	extra := map[string][]string{}
	for name, values := range header {
		for _, prefix := range h.ExtraHeaderPrefixes {
			if key, ok := cutPrefixFold(name, prefix); ok {
				key = unescape(strings.ToLower(key))
				extra[key] = append(extra[key], values...)
			}
		}
	}
	return extra
}

func (h *RequestHeader) clear(header http.Header) {
	for _, names := range [][]string{h.UsernameHeaders, h.UIDHeaders, h.GroupHeaders} {
		for _, name := range names {
			header.Del(name)
		}
	}
	for name := range header {
		for _, prefix := range h.ExtraHeaderPrefixes {
			if _, ok := cutPrefixFold(name, prefix); ok {
				delete(header, name)
			}
		}
	}
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// unescape undoes the percent-encoding of a header's key; what is not encoded well stays as it is.
func unescape(key string) string {
	if plain, err := url.PathUnescape(key); err == nil {
		return plain
	}
	return key
}
