package options

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"quintet.dev/quintet/internal/certs"
	"quintet.dev/quintet/internal/ports"
)

// Serving is how connections are taken, what responses say of the server at large, and how it goes away. The zero value
// is what upstream does by default.
type Serving struct {
	Handshakes   certs.Handshakes
	HTTP2Streams int                    // of one connection; 0 means as many as suit the server
	SNI          []cliflag.NamedCertKey // certificates for some host names
	Sharing      ports.Sharing

	CORSAllowedOrigins []string // regular expressions
	HSTS               []string // directives of Strict-Transport-Security
	GoawayChance       float64  // that a request over HTTP/2 ends its connection

	// MinRequestTimeout is how long watches live at least that don't say it themselves; 0 means half an hour.
	MinRequestTimeout time.Duration
	// LivezGrace is how long after the start /livez takes for granted what is still being done.
	LivezGrace time.Duration
	// StorageInitialization is how long /readyz waits for the caches; 0 means a minute.
	StorageInitialization time.Duration

	ShutdownDelay          time.Duration // between saying so at /readyz and taking no more requests
	ShutdownSendRetryAfter bool          // answer 429 while draining, instead of closing the port
	ShutdownWatchGrace     time.Duration // over which watches are ended
}

func (s *Serving) addFlags(fs *pflag.FlagSet) {
	s.Handshakes.AddFlags(fs)
	fs.IntVar(&s.HTTP2Streams, "http2-max-streams-per-connection", 0,
		"Bound of the requests at a time on one connection of HTTP/2; 0 leaves it to the server.")
	fs.Var(cliflag.NewNamedCertKeyArray(&s.SNI), "tls-sni-cert-key",
		"Certificate and key for some host names: cert,key[:name,...]; may be given several times.")
	s.Sharing.AddFlags(fs)
	fs.StringSliceVar(&s.CORSAllowedOrigins, "cors-allowed-origins", nil,
		"Origins that browsers may ask from: regular expressions that match the whole host.")
	fs.StringSliceVar(&s.HSTS, "strict-transport-security-directives", nil,
		"Directives of the header Strict-Transport-Security: max-age=..., includeSubDomains, preload.")
	fs.Float64Var(&s.GoawayChance, "goaway-chance", 0,
		"Chance from 0 to 0.02 that a request over HTTP/2 makes its client open another connection.")
	s.MinRequestTimeout = 30 * time.Minute
	fs.Var((*seconds)(&s.MinRequestTimeout), "min-request-timeout",
		"Seconds that a watch lives at least if it doesn't say so itself.")
	fs.DurationVar(&s.LivezGrace, "livez-grace-period", 0,
		"How long after the start /livez takes for granted what is still being done.")
	fs.DurationVar(&s.StorageInitialization, "storage-initialization-timeout", time.Minute,
		"How long /readyz waits for the caches.")
	fs.DurationVar(&s.ShutdownDelay, "shutdown-delay-duration", 0,
		"How long the server serves on after it is told to end; /readyz fails at once.")
	fs.BoolVar(&s.ShutdownSendRetryAfter, "shutdown-send-retry-after", false,
		"Answer new requests with 429 while those under way are finished, instead of closing the port.")
	fs.DurationVar(&s.ShutdownWatchGrace, "shutdown-watch-termination-grace-period", 0,
		"Time over which watches are ended when the server ends.")
}

// check returns what can't be.
func (s *Serving) check() error {
	var errs []error
	refuse := func(is bool, format string, a ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, a...))
		}
	}
	refuse(s.LivezGrace < 0, "--livez-grace-period can not be a negative value")
	refuse(s.GoawayChance < 0 || s.GoawayChance > 0.02, "--goaway-chance can not be less than 0 or greater than 0.02")
	refuse(s.StorageInitialization < 0, "--storage-initialization-timeout can not be negative value")
	refuse(s.ShutdownDelay < 0, "--shutdown-delay-duration can not be negative value")
	refuse(s.ShutdownWatchGrace < 0,
		"shutdown-watch-termination-grace-period, if provided, can not be a negative value")
	refuse(s.HTTP2Streams < 0, "--http2-max-streams-per-connection can not be negative")
	for _, d := range s.HSTS {
		name, age, valued := strings.Cut(d, "=")
		refuse(strings.TrimSpace(d) == "", "empty value in strict-transport-security-directives")
		refuse(strings.TrimSpace(d) != "" && d != "includeSubDomains" && d != "preload" &&
			(name != "max-age" || !valued || strings.Contains(age, "=")),
			"--strict-transport-security-directives invalid, allowed values: max-age=expireTime, "+
				"includeSubDomains, preload. "+
				"see https://tools.ietf.org/html/rfc6797#section-6.1 for more information")
	}
	for _, origin := range s.CORSAllowedOrigins {
		if err := checkOrigin(origin); err != nil {
			errs = append(errs, fmt.Errorf("--cors-allowed-origins: %w", err))
		}
	}
	return errors.Join(errs...)
}

// checkOrigin refuses patterns that match more than the whole host of an origin (CVE-2022-1996).
func checkOrigin(pattern string) error {
	if pattern == "" {
		return errors.New("empty value")
	}
	if _, err := regexp.Compile(pattern); err != nil {
		return fmt.Errorf("has an invalid regular expression: %w", err)
	}
	begins := strings.Contains(pattern, "^") || strings.Contains(pattern, "//")
	ends := strings.Contains(pattern, "$") || strings.Contains(pattern, ":")
	if !begins || !ends {
		return fmt.Errorf("has an invalid regular expression: %q "+
			"does not pin to start/end of host in the origin header: "+
			"begin it with ^ or //, and end it with $ or (:|$)", pattern)
	}
	return nil
}

// seconds is a duration that is written as a number of them.
type seconds time.Duration

func (s *seconds) String() string { return strconv.Itoa(int(time.Duration(*s) / time.Second)) }

func (s *seconds) Type() string { return "int" }

func (s *seconds) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err == nil && n <= 0 {
		err = errors.New("must be greater than 0")
	}
	*s = seconds(time.Duration(n) * time.Second)
	return err
}
