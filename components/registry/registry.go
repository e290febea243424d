// Package registry serves an OCI registry (https://github.com/opencontainers/distribution-spec) for the nodes of a
// cluster: distribution's, with its configuration file.
package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	"github.com/sirupsen/logrus"

	// The kinds of authentication and storage that a configuration may name.
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
)

// drain is how long requests under way have to end.
const drain = 5 * time.Second

// Registry is a server of images. Its library logs to the process's own logger.
type Registry struct {
	config *configuration.Configuration
	// Listener, if not nil, is used instead of the configuration's address, and is closed by Run.
	Listener net.Listener
}

// Read makes a registry of distribution's configuration file
// (https://distribution.github.io/distribution/about/configuration/). Storage is filesystem or inmemory, authentication
// htpasswd or none.
func Read(path string) (*Registry, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	config, err := configuration.Parse(file)
	if err != nil {
		return nil, fmt.Errorf("error parsing %s: %w", path, err)
	}
	r := &Registry{config: config}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// check tells what this registry does not have.
func (r *Registry) check() error {
	c := r.config
	var wrong []error
	if storage := c.Storage.Type(); storage != "filesystem" && storage != "inmemory" {
		wrong = append(wrong, fmt.Errorf("storage %q is not supported: use filesystem or inmemory", storage))
	}
	if kind := c.Auth.Type(); kind != "" && kind != "htpasswd" {
		wrong = append(wrong, fmt.Errorf("auth %q is not supported: use htpasswd", kind))
	}
	for field, set := range map[string]bool{
		"proxy": c.Proxy.RemoteURL != "", "redis": len(c.Redis.Options.Addrs) > 0,
		"notifications.endpoints": len(c.Notifications.Endpoints) > 0,
		"http.tls.letsencrypt":    c.HTTP.TLS.LetsEncrypt.CacheFile != "",
		"http.tls.clientcas":      len(c.HTTP.TLS.ClientCAs) > 0, "http.debug": c.HTTP.Debug.Addr != "",
		"http.net": c.HTTP.Net != "" && c.HTTP.Net != "tcp", "http.draintimeout": c.HTTP.DrainTimeout != 0,
		"http.tls.minimumtls": c.HTTP.TLS.MinimumTLS != "", "http.tls.ciphersuites": len(c.HTTP.TLS.CipherSuites) > 0,
		"http.http2.disabled": c.HTTP.HTTP2.Disabled, "log.formatter": c.Log.Formatter != "",
		"log.fields": len(c.Log.Fields) > 0, "log.hooks": len(c.Log.Hooks) > 0,
	} {
		if set {
			wrong = append(wrong, fmt.Errorf("%s is not supported: remove it", field))
		}
	}
	if (c.HTTP.TLS.Certificate == "") != (c.HTTP.TLS.Key == "") {
		wrong = append(wrong, errors.New("http.tls: give both certificate and key, or none"))
	}
	return errors.Join(wrong...)
}

// Run serves until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	if level, err := logrus.ParseLevel(string(r.config.Log.Level)); err == nil {
		logrus.SetLevel(level)
	}
	app, err := newApp(ctx, r.config)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: app, ReadHeaderTimeout: time.Minute}
	listener := r.Listener
	if listener == nil {
		if listener, err = net.Listen("tcp", r.config.HTTP.Addr); err != nil {
			return err
		}
	}
	serve := server.Serve
	if files := r.config.HTTP.TLS; files.Certificate != "" {
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		serve = func(l net.Listener) error { return server.ServeTLS(l, files.Certificate, files.Key) }
	}
	ended := make(chan error, 1)
	go func() { ended <- serve(listener) }()
	select {
	case err := <-ended:
		return errors.Join(err, app.Shutdown())
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		_ = server.Close() // what did not end in time is cut off
	}
	<-ended
	return app.Shutdown()
}

// newApp is the library's handler. It panics about a configuration that does not work.
func newApp(ctx context.Context, config *configuration.Configuration) (app *handlers.App, err error) {
	defer func() {
		if wrong := recover(); wrong != nil {
			err = fmt.Errorf("registry configuration: %v", wrong)
		}
	}()
	return handlers.NewApp(ctx, config), nil
}
