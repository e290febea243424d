package apiserver

import (
	"fmt"
	"net"
	"net/http"
	"strconv"

	"k8s.io/apiserver/pkg/server/filters"

	"quintet.dev/quintet/components/apiserver/options"
)

// edge is what responses carry, and which requests are answered, whatever the user; nil if there is nothing of it.
func edge(s options.Serving) func(next http.Handler) http.Handler {
	if len(s.CORSAllowedOrigins) == 0 && len(s.HSTS) == 0 && s.GoawayChance == 0 {
		return nil
	}
	return func(next http.Handler) http.Handler {
		next = filters.WithCORS(next, s.CORSAllowedOrigins, nil, nil, nil, "true")
		if s.GoawayChance > 0 {
			next = filters.WithProbabilisticGoaway(next, s.GoawayChance)
		}
		return filters.WithHSTS(next, s.HSTS)
	}
}

// openListener is the listener that the configuration gives, or one on its address and port.
func openListener(config options.Config) (net.Listener, error) {
	if config.Listener != nil {
		return config.Listener, nil
	}
	address := net.JoinHostPort(config.BindAddress.String(), strconv.Itoa(max(config.SecurePort, 0)))
	listener, err := config.Serving.Sharing.Listen(address)
	if err != nil {
		return nil, fmt.Errorf("listening on %s (--bind-address, --secure-port): %w", address, err)
	}
	return listener, nil
}
