package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// WithRegistry adds the component Registry, from which nodes pull images named RegistryHost/..., and which PushImage
// fills. Its images outlive its restarts.
func WithRegistry() Option {
	return func(c *config) error { c.registry = true; return nil }
}

// WithRegistryUser adds the component Registry as WithRegistry does, and has it demand a user's password: pods need a
// secret for it (imagePullSecrets).
func WithRegistryUser(name, password string) Option {
	return func(c *config) error {
		if name == "" || strings.ContainsAny(name, ":\n") || password == "" || len(password) > 72 {
			return errors.New("user of the registry: give a name without a colon, and a password of at most 72 bytes")
		}
		c.registry, c.registryUser = true, account{name, password}
		return nil
	}
}

// WithRegistryMirror has nodes ask a mirror before Docker Hub; they ask several in the order of the options. It is the
// address of the mirror as nodes reach it, e.g. https://mirror.example.
func WithRegistryMirror(address string) Option {
	return func(c *config) error {
		parsed, err := url.Parse(address)
		if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" || parsed.RawQuery != "" ||
			parsed.Fragment != "" || parsed.User != nil || strings.Trim(parsed.Path, "/") != "" {
			return fmt.Errorf("registry mirror %q: want an address such as https://mirror.example", address)
		}
		c.mirrors = append(c.mirrors, address)
		return nil
	}
}

// WithInsecureRegistry has nodes pull from a registry without TLS, or with a certificate of any authority: a host
// with or without port, or a range of addresses.
func WithInsecureRegistry(host string) Option {
	return func(c *config) error {
		if _, _, err := net.ParseCIDR(host); err != nil && (host == "" || strings.ContainsAny(host, "/ \n") ||
			strings.HasPrefix(host, "-")) {
			return fmt.Errorf("insecure registry %q: want HOST, HOST:PORT or a range such as 10.0.0.0/8", host)
		}
		c.insecure = append(c.insecure, host)
		return nil
	}
}
